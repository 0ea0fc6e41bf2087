// TIFF stacks as data sets, and pictures of 16 bits.
#include "dtrain/data/order/split.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "unit/data/folder.hpp"
#include "unit/data/tiff_stack.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

/// Pages of 4 × 6 pixels; all pixels of a page have its own number.
std::string stack_of(const std::vector<uint8_t>& values) {
  std::vector<Image> pages;
  for (const uint8_t value : values) pages.push_back({4, 6, 1, 8, std::vector<uint8_t>(24, value), {}});
  return tiff_stack(pages);
}

}  // namespace

TEST_CASE("every page of a stack is a sample beside the pictures of other files") {
  const TempFolder root;
  root.text("a/p1_x.tif", stack_of({10, 20, 30}));
  root.text("a/p2.TIFF", stack_of({40}));
  root.text("b/p3.pgm", std::string("P5\n2 1\n65535\n\x01\x02\x03\x04", 17));
  root.text("b/p4.bmp", "whatever");
  const DataOptions options = options_for("image_folder", root.path());
  const Dataset data = dataset_at(options);
  CHECK(paths_of(data) ==
        std::vector<std::string>{"a/p1_x.tif#1", "a/p1_x.tif#2", "a/p1_x.tif#3", "a/p2.TIFF", "b/p3.pgm", "b/p4.bmp"});
  for (int i = 0; i < 4; ++i) {
    INFO(data.samples[static_cast<size_t>(i)].path);
    CHECK(read_picture(data, i).bytes == std::vector<uint8_t>(24, static_cast<uint8_t>(10 * (i + 1))));
    CHECK(read_sample_files(data, i).bytes() < 200);  // not the whole stack
  }
  CHECK(read_picture(data, 4).words == std::vector<uint16_t>{0x0102, 0x0304});
  CHECK(data.samples[0].group == "p1");
  CHECK(data.samples[2].group == "p1");
  CHECK(data.samples[0].id != data.samples[1].id);
  REQUIRE_FALSE(data.notes.empty());
  CHECK(data.notes.back() == "1 file of several pages or frames, 3 in all, each a sample: a/p1_x.tif and the like");
}

TEST_CASE("more than ten pages keep their order, and a longer stack is another data set") {
  const TempFolder root;
  root.text("a/s.tif", stack_of(std::vector<uint8_t>(11, 1)));
  root.picture("b/1.png");
  const DataOptions options = options_for("image_folder", root.path());
  const Dataset data = dataset_at(options);
  CHECK(data.samples[1].path == "a/s.tif#2");
  CHECK(data.samples[10].path == "a/s.tif#11");
  root.text("a/s.tif", stack_of(std::vector<uint8_t>(12, 1)));
  CHECK(dataset_at(options).manifest_sha256 != data.manifest_sha256);
}

TEST_CASE("stacks of pictures and masks are paired page by page") {
  const TempFolder root;
  root.text("images/v.tif", stack_of({1, 2, 3}));
  root.text("masks/v.tif", stack_of({0, 255, 0}));
  root.text("images/w.tif", stack_of({4}));
  root.picture("masks/w.png", Image{4, 6, 1, 8, std::vector<uint8_t>(24, 255), {}});
  const DataOptions options = options_for("image_mask", root.path());
  const Dataset data = dataset_at(options);
  REQUIRE(paths_of(data) ==
          std::vector<std::string>{"images/v.tif#1", "images/v.tif#2", "images/v.tif#3", "images/w.tif"});
  CHECK(data.samples[1].masks == std::vector<std::string>{"masks/v.tif#2"});
  CHECK(read_mask(data, 0).bytes == std::vector<uint8_t>(24, 0));
  CHECK(read_mask(data, 1).bytes == std::vector<uint8_t>(24, 1));
  CHECK(read_picture(data, 1).bytes == std::vector<uint8_t>(24, 2));
}

TEST_CASE("the slices of a volume stay in one part where there are several volumes") {
  const TempFolder root;
  const auto volume = [&](const std::string& name) {
    root.text("images/" + name + ".tif", stack_of({1, 2, 3, 4}));
    root.text("masks/" + name + ".tif", stack_of({0, 255, 0, 255}));
  };
  volume("a");
  DataOptions options = options_for("image_mask", root.path());
  options.split.given = true;
  options.split.by = SplitOptions::By::patient;
  options.split.valid = 0.3;
  CHECK(holds(error_of(78, [&] { split_dataset(dataset_at(options), options.split); }), "name no patients"));
  for (const char* name : {"b", "c", "d", "e", "f"}) volume(name);
  const Dataset data = dataset_at(options);
  const Split whole = split_dataset(data, options.split);
  CHECK(whole.valid.size() % 4 == 0);
  CHECK_FALSE(whole.valid.empty());
  CHECK(whole.warnings.empty());
  options.split.by = SplitOptions::By::sample;
  REQUIRE(split_dataset(data, options.split).warnings.size() == 1);
  CHECK(holds(split_dataset(data, options.split).warnings[0], "split leak"));
}

TEST_CASE("stacks and masks of unequal pages are refused with both numbers") {
  const TempFolder root;
  root.text("images/v.tif", stack_of({1, 2, 3}));
  root.text("masks/v.tif", stack_of({0, 255}));
  root.text("images/w.tif", stack_of({1}));
  root.text("masks/w.tif", stack_of({0, 255}));
  const std::string sentence = error_of(65, [&] { dataset_at(options_for("image_mask", root.path())); });
  CHECK(holds(sentence, "v: 3 pages, its mask has 2"));
  CHECK(holds(sentence, "w: 1 page, its mask has 2"));
}

TEST_CASE("a label file names pages; the stack as a whole is not a picture") {
  const TempFolder root;
  root.text("s.tif", stack_of({1, 2}));
  DataOptions options = options_for("csv", root.path());
  options.labels = root / "labels.csv";
  options.csv.path = "file";
  options.csv.label = "kind";
  root.text("labels.csv", "file,kind\ns.tif#1,x\ns.tif#2,y\n");
  CHECK(dataset_at(options).samples.size() == 2);
  root.text("labels.csv", "file,kind\ns.tif,x\n");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "'s.tif' (a stack: name its pages as s.tif#1)"));
}

TEST_CASE("a damaged stack is told when it is read, by its name") {
  const TempFolder root;
  root.text("a/s.tif", stack_of({1, 2, 3}).substr(0, 150));
  root.picture("b/1.png");
  const DataOptions options = options_for("image_folder", root.path());
  const Dataset data = dataset_at(options);
  REQUIRE(data.samples[0].path == "a/s.tif");
  CHECK(holds(error_of(65, [&] { read_picture(data, 0); }), "a/s.tif is a damaged TIFF"));
}

TEST_CASE("data.image.range maps sample values to 0 and 1, whatever the depth, and clamps") {
  ImageOptions options;
  options.height = 1;
  options.width = 5;
  options.channels = 1;
  options.range_low = 1000;
  options.range_high = 5000;
  const Image deep{1, 5, 1, 16, {}, {0, 1000, 2000, 5000, 65535}};
  CHECK(resized_pixels(deep, options) == std::vector<float>{0, 0, 0.25F, 1, 1});
  const Image shallow{1, 5, 1, 8, {0, 50, 100, 200, 255}, {}};
  options.range_low = 50;
  options.range_high = 150;
  CHECK(resized_pixels(shallow, options) == std::vector<float>{0, 0, 0.5F, 1, 1});
  options.range_low = -128;
  options.range_high = 128;
  CHECK(resized_pixels(shallow, options)[0] == 0.5F);
  // The window is applied before resizing, so one very bright pixel does not dominate its neighbours.
  options.width = 1;
  options.range_low = 0;
  options.range_high = 1000;
  CHECK(resized_pixels({1, 2, 1, 16, {}, {0, 60000}}, options) == std::vector<float>{0.5F});
}

TEST_CASE("without data.image.range, and with the whole of it, white is that of the picture's depth") {
  ImageOptions options;
  options.height = 1;
  options.width = 3;
  options.channels = 1;
  const Image deep{1, 3, 1, 16, {}, {0, 13107, 65535}};
  const Image shallow{1, 3, 1, 8, {0, 51, 255}, {}};
  CHECK(resized_pixels(deep, options) == std::vector<float>{0, 0.2F, 1});
  CHECK(std::abs(resized_pixels(shallow, options)[1] - 0.2F) < 1e-7F);
  CHECK(resized_pixels(shallow, options)[2] == 1);
  const std::vector<float> plain = resized_pixels(shallow, options);
  options.range_high = 255;
  CHECK(resized_pixels(shallow, options) == plain);
}
