// Pictures without labels: which there are, what replaces those that cannot be read, what is written for them.
#include "dtrain/data/formats/picture_input.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "dtrain/data/formats/formats.hpp"
#include "folder.hpp"
#include "support/records.hpp"
#include "tiff_stack.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

PictureInput opened(const std::string& input, const std::string& left_out = "/nowhere",
                    const std::string& column = "") {
  DataOptions options;
  options.image = plain(4, 4, 1);
  return open_pictures(input, column, left_out, options);
}

std::string png_text(unsigned seed) {
  const std::vector<std::byte> bytes = encode_png(random_image(3, 5, 1, seed));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A record without any label.
std::string record(const std::string& picture) {
  return tfrecord(example({{"image/encoded", bytes_feature({picture})}}));
}

Dataset listing(const std::vector<std::string>& paths) {
  Dataset dataset;
  for (const std::string& path : paths) dataset.samples.emplace_back().path = path;
  return dataset;
}

}  // namespace

TEST_CASE("a folder's pictures come in natural order, pages of a stack apart, the output's own files left out") {
  const TempFolder folder;
  for (const char* name : {"b/10.png", "b/9.png", "a.jpg", "out/masks/a.png", ".hidden/x.png"}) folder.picture(name);
  folder.text("stack.tif", tiff_stack({random_image(3, 3, 1, 1), random_image(3, 3, 1, 2)}));
  folder.text("notes.txt", "none");
  folder.text("film.gif", "GIF89a");
  const PictureInput input = opened(folder.path(), folder / "out");
  CHECK(paths_of(input.dataset) ==
        std::vector<std::string>{"a.jpg", "b/9.png", "b/10.png", "stack.tif#1", "stack.tif#2"});
  REQUIRE(input.left_out.size() == 1);
  CHECK(holds(input.left_out[0], "1 picture of formats that are not read left out, such as film.gif"));
  CHECK(input.dataset.classes.empty());
  const std::string before = input.dataset.manifest_sha256;
  CHECK(opened(folder.path(), folder / "out").dataset.manifest_sha256 == before);
  folder.picture("a.jpg", random_image(9, 9, 1, 3));
  CHECK(opened(folder.path(), folder / "out").dataset.manifest_sha256 != before);
}

TEST_CASE("a picture and a list of paths are inputs too, and a list keeps its order") {
  const TempFolder folder;
  for (const char* name : {"a.png", "in/b.png"}) folder.picture(name);
  CHECK(paths_of(opened(folder / "in/b.png").dataset) == std::vector<std::string>{"b.png"});
  folder.text("in/list.txt", "b.png\r\n\n  ../a.png \nabsent.png\n" + (folder / "a.png") + "\n");
  const PictureInput input = opened(folder / "in/list.txt");
  CHECK(paths_of(input.dataset) == std::vector<std::string>{"b.png", "../a.png", "absent.png", folder / "a.png"});
  for (const int64_t good : {0, 1, 3}) CHECK(read_picture(input.dataset, good).height == 4);
}

TEST_CASE("absolute paths in lists and tables are pictures like relative ones, and count in the hash") {
  const TempFolder folder;
  folder.picture("far/a.png");
  folder.picture("in/b.png");
  folder.text("in/list.txt", (folder / "far/a.png") + "\n");
  folder.text("in/mixed.txt", "b.png\n" + (folder / "far/a.png") + "\n");
  folder.text("in/table.csv", "path\n" + (folder / "far/a.png") + "\n");
  for (const char* name : {"in/list.txt", "in/mixed.txt", "in/table.csv"}) {
    const PictureInput input = opened(folder / name);
    const auto last = static_cast<int64_t>(input.dataset.samples.size()) - 1;
    CHECK(input.dataset.samples.back().path == folder / "far/a.png");
    CHECK(input.pictures->header(input.dataset.samples.back()).height == 4);
    CHECK(read_picture(input.dataset, last).height == 4);
  }
  const std::string before = opened(folder / "in/mixed.txt").dataset.manifest_sha256;
  folder.picture("far/a.png", random_image(9, 9, 1, 3));
  CHECK(opened(folder / "in/mixed.txt").dataset.manifest_sha256 != before);
}

TEST_CASE("a table's column names pictures, in the order of its rows") {
  const TempFolder folder;
  for (const char* name : {"a, b.png", "in/b.png"}) folder.picture(name);
  folder.text("s.tif", tiff_stack({random_image(3, 3, 1, 1), random_image(3, 3, 1, 2)}));
  folder.text("in/table.csv", "\xEF\xBB\xBFpath,age,\r\n b.png ,5,\r\n\r\n\"../a, b.png\",6,\r\n../s.tif,7,\r\n");
  const PictureInput input = opened(folder / "in/table.csv");
  CHECK(paths_of(input.dataset) == std::vector<std::string>{"b.png", "../a, b.png", "../s.tif#1", "../s.tif#2"});
  for (const int64_t good : {0, 1, 3}) CHECK(read_picture(input.dataset, good).height > 0);
  folder.text("other.csv", "age,slice\n5,s.tif#2\n");
  CHECK(paths_of(opened(folder / "other.csv", "", "slice").dataset) == std::vector<std::string>{"s.tif#2"});
}

TEST_CASE("every record's picture is an input, labels or none, and one that is damaged is told when it is read") {
  const TempFolder folder;
  std::string flipped = record(png_text(7));
  flipped[flipped.size() - 10] ^= 1;
  folder.text("set/x.tfrecord", record(png_text(1)) + record("no picture") + flipped + record(png_text(2)));
  folder.text("set/b/y.tfrecord.gz", gzip(record(png_text(3))));
  const PictureInput input = opened(folder / "set");
  CHECK(paths_of(input.dataset) ==
        std::vector<std::string>{"b/y.tfrecord.gz/0", "x.tfrecord/0", "x.tfrecord/1", "x.tfrecord/2", "x.tfrecord/3"});
  for (const auto& [index, seed] : {std::pair{0, 3U}, {1, 1U}, {4, 2U}})
    CHECK(read_picture(input.dataset, index).bytes == random_image(3, 5, 1, seed).bytes);
  for (const size_t bad : {size_t{2}, size_t{3}}) {
    CHECK(read_picture(input.dataset, static_cast<int64_t>(bad)).height == 4);
    CHECK(holds(input.pictures->take(input.dataset.samples[bad]).bad, "x.tfrecord"));
  }
  CHECK(output_stem(input.dataset.samples[0].path) == "b/y.tfrecord.gz/0");
  CHECK(paths_of(opened(folder / "set/x.tfrecord").dataset).back() == "x.tfrecord/3");
  folder.text("set/x.tfrecord", record(png_text(1)) + "cut");
  CHECK(holds(error_of(65, [&] { opened(folder / "set"); }), "x.tfrecord"));

  folder.text("tars/a.tar", tar_member("k1.png", png_text(4)) + tar_member("k1.cls", "0") +
                                tar_member("k2.txt", "a report") + tar_member("deep/k3.PNG", png_text(5)) + tar_end());
  const PictureInput tars = opened(folder / "tars");
  CHECK(paths_of(tars.dataset) == std::vector<std::string>{"a.tar/k1.png", "a.tar/deep/k3.PNG"});
  CHECK(read_picture(tars.dataset, 1).bytes == random_image(3, 5, 1, 5).bytes);
  CHECK(holds(tars.notes.back(), "1 group without picture left out"));
  folder.picture("tars/b.png");
  const PictureInput beside = opened(folder / "tars");
  CHECK(paths_of(beside.dataset) == std::vector<std::string>{"b.png"});
  CHECK(holds(beside.left_out.at(0), "1 record file beside pictures left out, such as a.tar"));
}

TEST_CASE("what is no input is refused with what is one") {
  const TempFolder folder;
  folder.text("empty/readme.md", "");
  folder.text("none.txt", "\n \n");
  folder.text("twice.txt", "a.png\n./a.png\n");
  folder.text("table.csv", "path\n");
  folder.text("absent.csv", "path\nsub/none.png\nnone.png\n");
  folder.text("gaps.csv", "path,age\na.png,3\n ,4\n");
  folder.text("ages.csv", "age\n4\n");
  folder.text("same.csv", "path\na.png\n./a.png\n");
  folder.text("both/a.tar", tar_end());
  folder.text("both/a.tfrecord", "");
  CHECK(holds(error_of(66, [&] { opened(folder / "absent"); }), "does not exist"));
  CHECK(holds(error_of(65, [&] { opened(folder / "empty"); }), "holds no picture"));
  CHECK(holds(error_of(65, [&] { opened(folder / "none.txt"); }), "names no picture"));
  CHECK(holds(error_of(65, [&] { opened(folder / "twice.txt"); }), "'a.png' twice"));
  CHECK(holds(error_of(65, [&] { opened(folder / "empty/readme.md"); }), "neither a folder, a picture, a list"));
  CHECK(holds(error_of(65, [&] { opened(folder / "table.csv"); }), "has no row"));
  const std::string absent = error_of(66, [&] { opened(folder / "absent.csv"); });
  CHECK(holds(absent, "none of the 2 pictures that '" + (folder / "absent.csv") + "' names can be found"));
  CHECK(holds(absent, "sub/none.png; paths are relative to its folder"));
  CHECK(holds(error_of(65, [&] { opened(folder / "gaps.csv"); }), "gaps.csv:3 has no path in column 'path'"));
  CHECK(holds(error_of(65, [&] { opened(folder / "same.csv"); }), "'a.png' twice"));
  const std::string sentence = error_of(65, [&] { opened(folder / "gaps.csv", "", "pathh"); });
  CHECK(holds(error_of(65, [&] { opened(folder / "ages.csv"); }), "which the default of --column names"));
  CHECK(holds(sentence, "no column 'pathh', which --column names (did you mean 'path'?)"));
  CHECK(holds(error_of(64, [&] { opened(folder / "none.txt", "", "path"); }), "--column"));
  CHECK(holds(error_of(65, [&] { opened(folder / "both"); }), "two kinds, such as a.tar and a.tfrecord"));
  CHECK(holds(error_of(65, [&] { opened(folder / "both/a.tfrecord"); }), "holds no record"));
}

TEST_CASE("a picture that is replaced by one of the same name and size has another stamp") {
  const TempFolder folder;
  folder.picture("in/a.png", random_image(3, 5, 1, 1));
  folder.text("tars/a.tar", tar_member("k.png", png_text(4)) + tar_end());
  for (const auto& [input, file] : {std::pair{"in", "in/a.png"}, {"tars", "tars/a.tar"}}) {
    const PictureInput before = opened(folder / input);
    CHECK(opened(folder / input).stamps_sha256 == before.stamps_sha256);
    const std::filesystem::path path = folder / file;
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::microseconds(7));
    CHECK(opened(folder / input).dataset.manifest_sha256 == before.dataset.manifest_sha256);
    CHECK(opened(folder / input).stamps_sha256 != before.stamps_sha256);
  }
}

TEST_CASE("masks, and what an earlier prediction has written, are no input unless there is nothing else") {
  const TempFolder folder;
  for (const char* name : {"a.png", "sub/b.png", "old/masks/a.png", "masks/a.png", "sub/masks/b.png"})
    folder.picture(name);
  folder.text("old/predict.json", "{\n \"format\": \"dtrain-predict-1\",");
  folder.text("sub/predict.json", "{\"format\": \"another\"}");
  const PictureInput any = opened(folder.path());
  CHECK(paths_of(any.dataset) == std::vector<std::string>{"a.png", "masks/a.png", "sub/b.png", "sub/masks/b.png"});
  CHECK(holds(any.left_out.at(0), "1 picture left out in what dtrain predict has written, such as old/;"));
  CHECK(any.notes.at(0) == "4 pictures from 4 folders");
  DataOptions options;
  options.image = plain(4, 4, 1);
  options.format = *std::ranges::find(data_formats(), "image_mask", [](const auto* format) { return format->name; });
  const PictureInput drawn = open_pictures(folder.path(), "", "/nowhere", options);
  CHECK(paths_of(drawn.dataset) == std::vector<std::string>{"a.png", "sub/b.png"});
  CHECK(holds(drawn.left_out.at(1),
              "2 pictures left out in folders named 'masks', as that of the masks in training, such as masks/"));
  CHECK(open_pictures(folder / "sub/masks", "", "/nowhere", options).dataset.samples.size() == 1);
}

TEST_CASE("a link that leads nowhere in a folder is one picture that cannot be read") {
  const TempFolder folder;
  folder.picture("a.png");
  std::filesystem::create_symlink("gone.png", folder / "b.png");
  std::filesystem::create_symlink("gone.tif", folder / "c.tif");
  const PictureInput input = opened(folder.path());
  CHECK(paths_of(input.dataset) == std::vector<std::string>{"a.png", "b.png", "c.tif"});
  for (const size_t bad : {size_t{1}, size_t{2}}) {
    read_picture(input.dataset, static_cast<int64_t>(bad));
    CHECK(holds(input.pictures->take(input.dataset.samples[bad]).bad, input.dataset.samples[bad].path));
  }
}

TEST_CASE("a list may begin with a byte-order mark, and what no path can hold is told with its line") {
  const TempFolder folder;
  folder.picture("a.png");
  folder.text("marked.txt",
              "\xEF\xBB\xBF"
              "a.png\n");
  CHECK(paths_of(opened(folder / "marked.txt").dataset) == std::vector<std::string>{"a.png"});
  folder.text("wide.txt", std::string("\xFF\xFE"
                                      "a\0.\0",
                                      6));
  CHECK(holds(error_of(65, [&] { opened(folder / "wide.txt"); }), "is UTF-16; save it as UTF-8"));
  folder.text("zero.txt", std::string("a.png\nb\0.png\n", 13));
  CHECK(holds(error_of(65, [&] { opened(folder / "zero.txt"); }), "a zero byte in line 2"));
}

namespace {

/// Pictures on a machine that has a fault.
class FaultyStore final : public SampleStore {
 public:
  SampleFiles read(const Sample& sample, Wanted) const override {
    if (sample.path == "disk") throw IoError("cannot read disk: Input/output error");
    return {};
  }
  Image decode_picture(const Sample& sample, const SampleFiles&) const override {
    if (sample.path == "reader") throw NoReaderError(65, "reader is a DICOM file, and what reads such is not there");
    if (sample.path == "foreign") throw NoReaderError(77, "foreign is a DICOM file, and its reader is not ours");
    throw DataError(sample.path + " is damaged");
  }
  Image decode_mask(const Dataset&, const Sample&, const SampleFiles&) const override { return {}; }
  std::vector<Image> raw_masks(const Sample&, const SampleFiles&) const override { return {}; }
  ImageHeader header(const Sample&) const override { return {2, 2, 1, 8}; }
  std::string picture_name(const Sample& sample) const override { return sample.path; }
  std::string manifest_text(const Sample& sample) const override {
    if (sample.path == "disk") throw IoError("cannot look at disk: Stale file handle");
    return "4";
  }
};

}  // namespace

TEST_CASE("a fault of the machine is no fault of the picture") {
  const ListedPictures pictures(std::make_shared<const FaultyStore>(), plain(4, 4, 1));
  const auto seen = [&](const char* path) {
    Sample sample;
    sample.path = path;
    pictures.decode_picture(sample, pictures.read(sample, SampleStore::Wanted::picture));
    return pictures.take(sample).bad;
  };
  CHECK(seen("x") == "x is damaged");
  CHECK(holds(error_of(74, [&] { seen("disk"); }), "Input/output error"));
  CHECK(holds(error_of(78, [&] { seen("reader"); }), "what reads such is not there"));
  CHECK(holds(error_of(77, [&] { seen("foreign"); }), "its reader is not ours"));
  Sample disk;
  disk.path = "disk";
  CHECK(holds(error_of(74, [&] { pictures.manifest_text(disk); }), "Stale file handle"));
}

TEST_CASE("pictures whose pixels do not fit the range that a network is shown are told") {
  const TempFolder folder;
  const auto grey = [&](const char* name, int bits, std::vector<uint16_t> values) {
    Image image{1, static_cast<int64_t>(values.size()), 1, bits, {}, {}};
    if (bits == 16) image.words = values;
    if (bits == 8) image.bytes.assign(values.begin(), values.end());
    const std::vector<std::byte> bytes = encode_png(image);
    folder.text(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  };
  grey("narrow.png", 16, {0, 100, 4095});
  grey("wide.png", 16, {0, 100, 65000});
  grey("bytes.png", 8, {3, 100, 255});
  grey("flat.png", 16, {7, 7, 7});
  const auto off_range = [&](double low, double high) {
    DataOptions options;
    options.image = plain(4, 4, 1);
    options.image.range_low = low;
    options.image.range_high = high;
    const PictureInput input = open_pictures(folder.path(), "", "/nowhere", options);
    std::vector<std::string> paths;
    for (size_t i = 0; i < input.dataset.samples.size(); ++i) {
      read_picture(input.dataset, static_cast<int64_t>(i));
      if (input.pictures->take(input.dataset.samples[i]).off_range) paths.push_back(input.dataset.samples[i].path);
    }
    return paths;
  };
  CHECK(off_range(0, 0) == std::vector<std::string>{"narrow.png"});
  CHECK(off_range(255, 60000) == std::vector<std::string>{"bytes.png"});
  CHECK(off_range(5000, 60000) == std::vector<std::string>{"bytes.png", "narrow.png"});
  CHECK(off_range(0, 60000).empty());
}

TEST_CASE("a black picture stands for one that cannot be read, and the reason is kept until it is taken") {
  const TempFolder folder;
  folder.picture("good.png", random_image(3, 5, 1, 1));
  folder.text("bad.png", "no picture at all");
  folder.text("list.txt", "good.png\nbad.png\nabsent.png\n");
  const PictureInput input = opened(folder / "list.txt");
  const auto& samples = input.dataset.samples;
  CHECK(read_picture(input.dataset, 0).bytes == random_image(3, 5, 1, 1).bytes);
  const ListedPictures::Found good = input.pictures->take(samples[0]);
  CHECK((good.height == 3 && good.width == 5 && good.bad.empty()));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Image black = read_picture(input.dataset, static_cast<int64_t>(i));
    CHECK((black.height == 4 && black.width == 4 && black.bytes == std::vector<uint8_t>(16, 0)));
    CHECK(holds(input.pictures->take(samples[i]).bad, samples[i].path));
  }
  folder.picture("bad.png");  // replaced by a good one meanwhile
  read_picture(input.dataset, 1);
  CHECK(input.pictures->take(samples[1]).bad.empty());
  CHECK_THROWS_AS(input.pictures->take(samples[1]), InternalError);  // it was already taken
}

TEST_CASE("what is written for a picture lies below any folder, under a name of its own") {
  CHECK(output_stem("a/b.c.png") == "a/b.c");
  CHECK(output_stem("../../x/a.tif#12") == "x/a#12");
  CHECK(output_stem("/data/a.dcm") == "data/a");
  CHECK(output_stem("over.tar/../../../keep/x.png") == "over.tar/keep/x");
  CHECK(output_stem("a.tar/./b//...png") == "a.tar/b/..");  // whose mask is "...png", a name as any other
  CHECK(output_stem("...png") == "..");
  CHECK_NOTHROW(require_own_stems(listing({"a.png", "b/a.png", "a.tif#1"})));
  CHECK(holds(error_of(65, [] { require_own_stems(listing({"a.png", "a.tif"})); }), "'a.png' and 'a.tif'"));
  CHECK(holds(error_of(65, [] { require_own_stems(listing({"x/a.png", "../x/a.png"})); }), "x/a.png;"));
  const std::string longest(247, 'n');
  CHECK_NOTHROW(require_own_stems(listing({longest + ".png", "x/" + longest + ".tif"})));
  CHECK(holds(error_of(65, [&] { require_own_stems(listing({"x/n" + longest + ".png"})); }), "is too long"));
  CHECK(holds(error_of(65,
                       [] {
                         require_own_stems(listing({"a.tif", "a.png/b.png"}));
                       }),
              "the folder of 'a.png/b.png'"));
}
