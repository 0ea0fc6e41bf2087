// Pictures whose channels are files of their own (data.image.files) or neighbouring pages (data.image.slices).
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/data/pixels/outlines.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/data/store/channel_files.hpp"
#include "unit/data/folder.hpp"
#include "unit/data/tiff_stack.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Bytes = std::vector<uint8_t>;

Image grey(uint8_t value, int64_t height = 1, int64_t width = 2) {
  return {height, width, 1, 8, Bytes(static_cast<size_t>(height * width), value), {}};
}

DataOptions with_files(DataOptions options, const std::vector<std::string>& files) {
  options.image.files = files;
  options.image.channels = options.image.stacked_channels();
  return options;
}

DataOptions with_slices(DataOptions options, int64_t slices) {
  options.image.slices = options.image.channels = slices;
  return options;
}

/// a_0000.png, a_0001.png, b_… in images/, and masks/a.png, b.png.
DataOptions two_files(const TempFolder& root, const std::vector<std::string>& files = {"_0000", "_0001"}) {
  root.picture("images/a_0000.png", {1, 2, 1, 8, {10, 11}, {}});
  root.picture("images/a_0001.png", {1, 2, 1, 8, {20, 21}, {}});
  root.picture("images/b_0000.png", {1, 2, 1, 8, {30, 31}, {}});
  root.picture("images/b_0001.png", {1, 2, 1, 8, {40, 41}, {}});
  root.picture("masks/a.png", {1, 2, 1, 8, {0, 255}, {}});
  root.picture("masks/b.png", {1, 2, 1, 8, {255, 0}, {}});
  return with_files(options_for("image_mask", root.path()), files);
}

/// Pages of one pixel, with its number as its value.
std::string pages(const Bytes& values) {
  std::vector<Image> all;
  for (const uint8_t value : values) all.push_back(grey(value, 1, 1));
  return tiff_stack(all);
}

}  // namespace

TEST_CASE("the files of a picture are its channels, in the order of the key, and its mask has none of their endings") {
  const TempFolder root;
  const Dataset data = dataset_at(two_files(root));
  REQUIRE(paths_of(data) == std::vector<std::string>{"images/a_0000.png", "images/b_0000.png"});
  CHECK(data.samples[0].masks == std::vector<std::string>{"masks/a.png"});
  const Image picture = read_picture(data, 0);
  CHECK(picture.channels == 2);
  CHECK(picture.bytes == Bytes{10, 20, 11, 21});
  CHECK(read_mask(data, 0).bytes == Bytes{0, 1});
  CHECK(data.store->header(data.samples[0]).channels == 2);
  CHECK(read_sample_files(data, 0).channels.size() == 2);
  CHECK(data.notes.front() == "each picture is 2 files, one grey channel each: _0000, _0001");
  const Dataset turned = dataset_at(two_files(root, {"_0001", "_0000"}));
  CHECK(turned.samples[0].path == "images/a_0001.png");
  CHECK(read_picture(turned, 0).bytes == Bytes{20, 10, 21, 11});
  CHECK(turned.manifest_sha256 != data.manifest_sha256);
}

TEST_CASE("the ending that fits is the longest, and an ending is what stands before that of the format") {
  const ChannelFiles files({"_1", "_ir_1", "_2"});
  CHECK(files.channel_of("x/a_1.png") == 0);
  CHECK(files.channel_of("x/a_ir_1.tif#7") == 1);
  CHECK(files.channel_of("x_1/a.png") == ChannelFiles::kNone);
  CHECK(files.channel_of("x/_2.png") == 2);
  CHECK(files.sibling("x/a_ir_1.tif#7", 2) == "x/a_2.tif#7");
}

TEST_CASE("other data are another manifest: a changed second file, another number of slices") {
  const TempFolder root;
  const DataOptions options = two_files(root);
  const Dataset before = dataset_at(options);
  root.picture("images/b_0001.png", random_image(8, 8, 1, 3));
  CHECK(dataset_at(options).manifest_sha256 != before.manifest_sha256);
  const TempFolder stacks;
  stacks.text("c/s.tif", pages({1, 2, 3}));
  const DataOptions plain = options_for("image_folder", stacks.path());
  CHECK(dataset_at(with_slices(plain, 3)).manifest_sha256 != dataset_at(plain).manifest_sha256);
  CHECK(dataset_at(with_slices(plain, 3)).manifest_sha256 != dataset_at(with_slices(plain, 5)).manifest_sha256);
}

TEST_CASE("files that a picture lacks are all named, and files with no such ending are left out") {
  const TempFolder root;
  const DataOptions options = two_files(root);
  root.picture("images/c_0001.png");
  std::filesystem::remove(root / "images/b_0001.png");
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "lack files of their channels (2); data.image.files [_0000, _0001] wants one file for each"));
  CHECK(holds(sentence, "b_0001.png, beside b_0000.png"));
  CHECK(holds(sentence, "c_0000.png, beside c_0001.png"));
  root.picture("images/b_0001.png");
  std::filesystem::remove(root / "images/c_0001.png");
  root.picture("images/thumb.png");
  const Dataset data = dataset_at(options);
  CHECK(data.samples.size() == 2);
  CHECK(holds(data.warnings.front(),
              "1 picture left out whose names end in none of data.image.files [_0000, _0001], "
              "such as thumb.png"));
  CHECK(holds(error_of(65,
                       [&] {
                         dataset_at(two_files(root, {"_ct", "_pet"}));
                       }),
              "ends in one of data.image.files [_ct, _pet]"));
}

TEST_CASE("files that look like channels of one picture are told with the key to write") {
  const TempFolder root;
  DataOptions options = two_files(root);
  options.image.files.clear();
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "write 'data.image.files=[_0000, _0001]'"));
}

TEST_CASE("channels of a picture must be grey and of one size and depth") {
  const TempFolder root;
  const DataOptions options = two_files(root);
  const Dataset data = dataset_at(options);
  root.picture("images/a_0001.png", grey(5, 2, 2));
  const std::string sizes = error_of(65, [&] { read_picture(data, 0); });
  CHECK(holds(sizes,
              "'images/a_0000.png' (1 × 2, 8 bits) and 'images/a_0001.png' (2 × 2, 8 bits) of one picture differ"));
  CHECK(holds(error_of(65, [&] { data.store->header(data.samples[0]); }), "(1 × 2) and 'images/a_0001.png' (2 × 2)"));
  root.picture("images/a_0001.png", {1, 2, 1, 16, {}, {500, 600}});
  CHECK(holds(error_of(65, [&] { read_picture(data, 0); }), "(1 × 2, 16 bits) of one picture differ"));
  root.picture("images/a_0001.png", {1, 2, 3, 8, {1, 2, 3, 4, 5, 6}, {}});
  CHECK(holds(error_of(65, [&] { read_picture(data, 0); }), "a_0001.png is coloured, but"));
  root.picture("images/a_0001.png", {1, 2, 3, 8, {7, 7, 7, 8, 8, 8}, {}});
  CHECK(read_picture(data, 0).bytes == Bytes{10, 7, 11, 8});
  std::filesystem::remove(root / "images/a_0001.png");
  CHECK(holds(error_of(66, [&] { read_picture(data, 0); }), "a_0001.png"));
}

TEST_CASE("class folders and label files hold pictures of several files, too") {
  const TempFolder root;
  for (const char* name : {"k/a_0000.png", "k/a_0001.png", "l/b_0000.png", "l/b_0001.png"}) root.picture(name);
  const Dataset folders = dataset_at(with_files(options_for("image_folder", root.path()), {"_0000", "_0001"}));
  CHECK(paths_of(folders) == std::vector<std::string>{"k/a_0000.png", "l/b_0000.png"});
  root.text("table.csv", "path,label\nk/a_0000.png,x\nl/b_0000.png,y\n");
  DataOptions table = with_files(options_for("csv", root.path()), {"_0000", "_0001"});
  table.labels = root / "table.csv";
  table.csv.label = "label";
  CHECK(dataset_at(table).samples.size() == 2);
  std::filesystem::remove(root / "l/b_0001.png");
  CHECK(holds(error_of(65, [&] { dataset_at(table); }), "l/b_0001.png, beside l/b_0000.png"));
  table.on_missing = OnMissing::skip;
  const Dataset less = dataset_at(table);
  CHECK(paths_of(less) == std::vector<std::string>{"k/a_0000.png"});
  CHECK(less.left_out == std::vector<std::string>{"l/b_0000.png"});
  CHECK(holds(less.warnings.front(), "1 picture left out because files of their channels are missing"));
  root.text("table.csv", "path,label\nk/a_0001.png,x\n");
  CHECK(holds(error_of(65, [&] { dataset_at(table); }), "names 'k/a_0001.png', but with data.image.files"));
}

TEST_CASE("a page is seen between its neighbours, the ends of the stack repeated, with its own mask") {
  const TempFolder root;
  root.text("images/s.tif", pages({1, 2, 3, 4}));
  root.text("masks/s.tif", pages({255, 0, 255, 0}));
  const DataOptions plain = options_for("image_mask", root.path());
  const auto seen = [&](int64_t slices, int64_t page) {
    return read_picture(dataset_at(with_slices(plain, slices)), page).bytes;
  };
  CHECK(seen(1, 1) == Bytes{2});
  CHECK(seen(3, 0) == Bytes{1, 1, 2});
  CHECK(seen(3, 1) == Bytes{1, 2, 3});
  CHECK(seen(3, 3) == Bytes{3, 4, 4});
  CHECK(seen(7, 0) == Bytes{1, 1, 1, 1, 2, 3, 4});
  CHECK(seen(9, 3) == Bytes{1, 1, 2, 3, 4, 4, 4, 4, 4});
  const Dataset data = dataset_at(with_slices(plain, 3));
  CHECK(read_mask(data, 0).bytes == Bytes{1});
  CHECK(read_mask(data, 1).bytes == Bytes{0});
  CHECK(data.store->header(data.samples[0]).channels == 3);
}

TEST_CASE("pages that a table names keep their neighbours in the file, and a file of one page is repeated") {
  const TempFolder root;
  root.text("s.tif", pages({1, 2, 3}));
  root.text("t.tif", pages({9}));
  root.text("table.csv", "path,label\ns.tif#2,x\nt.tif,y\n");
  DataOptions table = with_slices(options_for("csv", root.path()), 3);
  table.labels = root / "table.csv";
  table.csv.label = "label";
  const Dataset data = dataset_at(table);
  CHECK(read_picture(data, 0).bytes == Bytes{1, 2, 3});
  CHECK(read_picture(data, 1).bytes == Bytes{9, 9, 9});
}

TEST_CASE("slices are refused where nothing is a page of a stack") {
  const TempFolder root;
  root.picture("a/1.png");
  root.picture("b/2.png");
  const DataOptions options = with_slices(options_for("image_folder", root.path()), 3);
  CHECK(holds(error_of(78, [&] { dataset_at(options); }),
              "data.image.slices is 3, but none of the 2 pictures is a page of a stack"));
}

TEST_CASE("each channel is resized and augmented as a grey picture is") {
  const Image both = random_image(13, 17, 2, 7);
  ImageOptions options = plain(10, 12, 2, GENERATE(Resize::squash, Resize::pad));
  options.files = {"_0000", "_0001"};
  ImageOptions alone = options;
  alone.channels = 1;
  alone.files.clear();
  alone.mean = {0};
  alone.std = {1};
  AugmentDraw moved, turned, changed, contrast, words;
  moved.hflip = true;
  turned.rotate = 20;
  changed.brightness = 1.2F, changed.gamma = 0.8F, changed.blur = 1;
  contrast.contrast = 0.6F;
  words.trivial = TrivialDraw{TrivialOp::contrast, 20, true};
  for (const AugmentDraw& draw : {AugmentDraw{}, moved, turned, changed, contrast, words}) {
    std::vector<float> merged(10 * 12 * 2);
    transform_image(both, options, draw, merged);
    for (size_t c = 0; c < 2; ++c) {
      Image one{13, 17, 1, 8, {}, {}};
      for (size_t i = c; i < both.bytes.size(); i += 2) one.bytes.push_back(both.bytes[i]);
      std::vector<float> wanted(10 * 12);
      transform_image(one, alone, draw, wanted);
      for (size_t i = 0; i < wanted.size(); ++i) REQUIRE(merged[2 * i + c] == wanted[i]);
    }
  }
  const Image shown = for_display(both, options);
  CHECK(shown.channels == 3);
  CHECK(shown.bytes[3] == both.bytes[2]);
  CHECK(shown.bytes[4] == both.bytes[2]);
}

TEST_CASE("three slices are no colours: contrast is about the mean of each, and the middle is shown") {
  ImageOptions options = plain(4, 4, 3);
  options.slices = 3;
  Image picture{4, 4, 3, 8, {}, {}};
  for (int i = 0; i < 16; ++i)
    for (const uint8_t value : {uint8_t{0}, uint8_t{100}, uint8_t{200}}) picture.bytes.push_back(value);
  AugmentDraw draw;
  draw.contrast = 0;
  std::vector<float> out(48);
  transform_image(picture, options, draw, out);
  CHECK(out[0] == 0);
  CHECK(out[1] == Approx(100.0 / 255));
  CHECK(out[2] == Approx(200.0 / 255));
  CHECK(for_display(picture, options).bytes == Bytes(48, 100));
}

TEST_CASE("pictures to predict are named by their first files, and what one lacks makes it bad") {
  const TempFolder root;
  DataOptions options = two_files(root);
  options.format = format_named("image_folder");
  std::filesystem::remove(root / "images/a_0001.png");
  std::filesystem::remove(root / "images/b_0000.png");
  root.picture("images/c.png");
  const PictureInput input = open_pictures(root / "images", "", "", options);
  CHECK(paths_of(input.dataset) == std::vector<std::string>{"a_0000.png", "b_0000.png"});
  CHECK(holds(input.left_out.back(), "1 picture left out whose names end in none of data.image.files"));
  for (int64_t i = 0; i < 2; ++i) {
    read_picture(input.dataset, i);
    CHECK(holds(input.pictures->take(input.dataset.samples[static_cast<size_t>(i)]).bad, i == 0 ? "a_0001" : "b_0000"));
  }
  CHECK(holds(error_of(65, [&] { open_pictures(root / "masks", "", "", options); }),
              "whose names end as in data.image.files"));
  const DataOptions slices = with_slices(options_for("image_folder", root.path()), 3);
  const std::vector<std::string> notes = open_pictures(root / "masks", "", "", slices).notes;
  CHECK(std::any_of(notes.begin(), notes.end(), [](const auto& note) { return holds(note, "is a page of a stack"); }));
}
