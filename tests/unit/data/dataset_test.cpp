#include <unistd.h>

#include <set>

#include "dtrain/base/hash.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "unit/data/folder.hpp"
#include "unit/io/made_png.hpp"

using namespace dtrain;
using namespace dtrain::test;

TEST_CASE("an image folder gives one class per folder, at any depth, in natural order") {
  const TempFolder root;
  for (const char* name : {"dog/p10.png", "dog/p2.jpg", "cat/deep/x_1.JPEG", "cat/.hidden.png", ".git/z.png"})
    root.picture(name);
  root.text("dog/notes.txt", "no picture");
  const Dataset data = dataset_at(options_for("image_folder", root.path()));
  CHECK(data.task == Task::multiclass);
  CHECK(data.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(paths_of(data) == std::vector<std::string>{"cat/deep/x_1.JPEG", "dog/p2.jpg", "dog/p10.png"});
  CHECK(data.samples[0].class_index == 0);
  CHECK(data.samples[2].class_index == 1);
  CHECK(data.samples[0].group == "x");
  CHECK(data.samples[2].group == "p10");
  CHECK(data.samples[0].id == hash64("cat/deep/x_1.JPEG"));
  REQUIRE(data.notes.size() == 2);
  CHECK(holds(data.notes[0], ".git"));
  CHECK(holds(data.notes[1], "1 file left out: not pictures by name"));
}

TEST_CASE("pictures of formats that are not read are refused, never left out, unless their class is") {
  const TempFolder root;
  for (const char* name : {"cat/1.png", "dog/2.png"}) root.picture(name);
  for (const char* name : {"dog/deep/b.GIF", "dog/a.webp", "dog/ct.nii.gz", "dog/2.jp2", "ct.nii.gz"})
    root.text(name, "x");  // dog/2.jp2 has its conversion beside it
  DataOptions options = options_for("image_folder", root.path());
  const std::string error = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(error,
              "3 pictures of formats that are not read (1 of .gif, 1 of .nii.gz, 1 of .webp), such as dog/a.webp"));
  options.classes = {"cat"};
  CHECK(dataset_at(options).samples.size() == 1);
}

TEST_CASE("train/ and val/ are parts, not classes") {
  const TempFolder root;
  for (const char* name : {"train/a/1.png", "train/b/2.png", "val/a/3.png", "val/b/4.png", "test/a/5.png"})
    root.picture(name);
  const Dataset data = dataset_at(options_for("image_folder", root.path()));
  CHECK(data.classes == std::vector<std::string>{"a", "b"});
  REQUIRE(data.samples.size() == 5);
  CHECK(data.samples[0].part == "test");
  CHECK(data.samples[1].part == "train");
  CHECK(data.samples[3].part == "valid");
  CHECK(data.samples[4].class_index == 1);
  REQUIRE(data.notes.size() == 1);
  CHECK(holds(data.notes[0], "class 'b' has no folder in 'test'"));
}

TEST_CASE("folders named by the split are parts as well") {
  const TempFolder root;
  for (const char* name : {"learn/a/1.png", "learn/b/2.png", "check/a/3.png", "check/b/4.png"}) root.picture(name);
  DataOptions options = options_for("image_folder", root.path());
  options.split.folders = {{"train", "learn"}, {"valid", root / "check"}};
  const Dataset data = dataset_at(options);
  CHECK(data.classes == std::vector<std::string>{"a", "b"});
  CHECK(data.samples[0].part == "valid");
  CHECK(data.samples[2].part == "train");
}

TEST_CASE("a part that the configuration names outside of the root is read, and bounds its own links") {
  const TempFolder root;
  const TempFolder elsewhere;
  for (const char* name : {"learn/a/1.png", "learn/b/2.png"}) root.picture(name);
  for (const char* name : {"a/3.png", "b/4.png"}) elsewhere.picture(name);
  DataOptions options = options_for("image_folder", root.path());
  options.split.folders = {{"train", "learn"}, {"valid", elsewhere.path()}};
  const Dataset data = dataset_at(options);
  REQUIRE(data.samples.size() == 4);
  for (const Sample& sample : data.samples) CHECK(sample.part == (holds(sample.path, "learn/") ? "train" : "valid"));
  std::filesystem::create_symlink(root / "learn/a/1.png", elsewhere / "a/5.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "a/5.png"));
}

TEST_CASE("a class of data.classes that no folder has is told with those that there are") {
  const TempFolder root;
  for (const char* name : {"cats/1.png", "dogs/2.png", "birds/3.png"}) root.picture(name);
  DataOptions options = options_for("image_folder", root.path());
  for (const auto& classes : {std::vector<std::string>{"cats", "digs"}, std::vector<std::string>{"digs"}}) {
    options.classes = classes;
    const std::string sentence = error_of(78, [&] { dataset_at(options); });
    CHECK(holds(sentence, "'digs'"));
    CHECK(holds(sentence, "did you mean 'dogs'"));
    CHECK(holds(sentence, "birds"));
  }
}

TEST_CASE("a class folder whose name is not UTF-8 is refused by name, unless data.classes leaves it out") {
  const TempFolder root;
  for (const char* name : {"caf\xE9/1.png", "a/2.png", "b/p\xE9.png"}) root.picture(name);
  DataOptions options = options_for("image_folder", root.path());
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "'caf\\xE9' is not UTF-8"));
  options.classes = {"a", "b"};
  CHECK(dataset_at(options).samples.size() == 2);  // a picture's own name may be any bytes
}

TEST_CASE("a class folder whose name steers a terminal is refused by name, one in any script is not") {
  for (const auto& [name, shown] :
       {std::pair<std::string, std::string>{"x\ndtrain: error 0: all good", "'x\\ndtrain: error 0: all good' holds"},
        {"a\x1B[31m", "'a\\u001b[31m' holds"},
        {"a\u202Eb", "'a\\u202eb' holds"}}) {
    const TempFolder root;
    for (const std::string& folder : {name, std::string("b")}) root.picture(folder + "/1.png");
    DataOptions options = options_for("image_folder", root.path());
    CHECK(holds(error_of(65, [&] { dataset_at(options); }), shown));
    options.classes = {"b"};
    CHECK(dataset_at(options).samples.size() == 1);
  }
  const TempFolder root;
  for (const char* name : {"é", "肺", "🫁", "رئة"}) root.picture(std::string(name) + "/\x1B[31m\n.png");
  CHECK(dataset_at(options_for("image_folder", root.path())).samples.size() == 4);
}

TEST_CASE("what UTF-8 forbids is not UTF-8") {
  for (const char* good :
       {"", "plain", "\xC2\xA0", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    CHECK_NOTHROW(require_plain_name(good, "x", "y"));
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xE2\x82", "\xE2\x82z", "\xFF"}) {
    INFO(bad);
    CHECK_THROWS_AS(require_plain_name(bad, "x", "y"), DataError);
  }
}

namespace {

/// A folder that may be listed but not searched, in a process without root's right to ignore that.
class Unsearchable {
 public:
  explicit Unsearchable(const std::string& folder) : folder_(folder) {
    std::filesystem::permissions(folder_, std::filesystem::perms(0644));
    powerless_ = own_ != 0 || seteuid(65534) == 0;
  }
  ~Unsearchable() {
    if (own_ == 0 && seteuid(own_) != 0) std::abort();
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  }
  Unsearchable(const Unsearchable&) = delete;
  Unsearchable& operator=(const Unsearchable&) = delete;
  bool powerless() const { return powerless_; }

 private:
  std::string folder_;
  uid_t own_ = geteuid();
  bool powerless_ = false;
};

}  // namespace

TEST_CASE("a root that may be seen but not searched is a matter of permission") {
  const TempFolder root;
  for (const char* name : {"train/a/1.png", "valid/a/2.png", "images/1.png", "masks/1.png", "x.png"})
    root.picture(name);
  root.text("labels.csv", "path,kind\nnone.png,x\n");
  const Unsearchable closed(root.path());
  if (!closed.powerless()) return dtrain::test::skip("cannot do without the rights of root here");
  for (const std::string format : {"image_folder", "image_mask", "csv"}) {
    DataOptions options = options_for(format, root.path());
    options.labels = root / "labels.csv";
    options.csv.label = "kind";
    error_of(77, [&] { dataset_at(options); });
  }
  CHECK_THROWS_AS(is_folder(root / "train"), PermissionError);
  CHECK_THROWS_AS(is_file(root / "x.png"), PermissionError);
  CHECK_FALSE(is_folder("/" + std::string(300, 'x')));
}

TEST_CASE("data.classes chooses and orders the classes of an image folder") {
  const TempFolder root;
  for (const char* name : {"a/1.png", "b/2.png", "c/3.png"}) root.picture(name);
  std::filesystem::create_directories(root / "empty");
  DataOptions options = options_for("image_folder", root.path());
  options.classes = {"c", "a"};
  const Dataset data = dataset_at(options);
  CHECK(data.classes == options.classes);
  CHECK(paths_of(data) == std::vector<std::string>{"a/1.png", "c/3.png"});
  CHECK(data.samples[0].class_index == 1);
  CHECK(data.samples[1].class_index == 0);
  options.classes = {"a", "B"};
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "'B'"));
  options.classes = {"a", "a"};
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "twice"));
}

TEST_CASE("a class folder without pictures, or no class folder at all, is an error that names it") {
  const TempFolder root;
  root.text("a/readme.txt", "");
  root.picture("b/1.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("image_folder", root.path())); }), root / "a"));
  const TempFolder flat;
  flat.picture("1.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("image_folder", flat.path())); }), "class folders"));
  const TempFolder parts;
  for (const char* name : {"train/a/1.png", "valid/a/2.png", "valid/b/3.png"}) parts.picture(name);
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("image_folder", parts.path())); }), "class folder 'b'"));
}

TEST_CASE("a root that is not there, or is a file, names data.root") {
  const TempFolder folder;
  CHECK(holds(error_of(66, [&] { dataset_at(options_for("image_folder", folder / "none")); }), "data.root"));
  folder.text("file", "");
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("image_mask", folder / "file")); }), "data.root"));
}

TEST_CASE("links are followed beneath the root, beyond it only when allowed") {
  namespace fs = std::filesystem;
  const TempFolder elsewhere;
  elsewhere.picture("far.png");
  const TempFolder root;
  root.picture("a/1.png");
  root.picture(".store/2.png");
  fs::create_directories(root / "b");
  fs::create_symlink(root / ".store/2.png", root / "b/2.png");
  DataOptions options = options_for("image_folder", root.path());
  CHECK(paths_of(dataset_at(options)) == std::vector<std::string>{"a/1.png", "b/2.png"});

  fs::create_symlink(elsewhere / "far.png", root / "b/far.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), root / "b/far.png"));
  options.allow_links = true;
  CHECK(dataset_at(options).samples.size() == 3);

  fs::create_directory_symlink(root.path(), root / "b/loop");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "b/loop"));
  fs::remove(root / "b/loop");
  fs::create_symlink(root / "gone.png", root / "b/gone.png");
  CHECK(holds(error_of(66, [&] { dataset_at(options); }), "b/gone.png"));
}

TEST_CASE("a link that leaves the root is refused in every format, with one sentence that names it") {
  namespace fs = std::filesystem;
  const TempFolder elsewhere;
  elsewhere.picture("far.png");
  const TempFolder root;
  for (const char* name : {"a/1.png", "images/2.png", "masks/2.png"}) root.picture(name);
  root.text("labels.csv", "Image Index,Finding Labels\nfar.png,Mass\n");
  const auto refused = [&](DataOptions options, const std::string& link, const std::string& target) {
    fs::remove(root / link);
    fs::create_symlink(target, root / link);
    options.labels = root / "labels.csv";
    options.csv.path = "Image Index";
    options.csv.label = "Finding Labels";
    const std::string sentence = error_of(65, [&] { dataset_at(options); });
    CHECK(holds(sentence, root / link));
    CHECK(holds(sentence, "leads out of '"));
    CHECK(holds(sentence, "data.allow_links"));
    CHECK_FALSE(holds(sentence, "\n"));
    fs::remove(root / link);
  };
  for (const std::string format : {"image_folder", "csv", "nih_cxr14", "image_mask"}) {
    const std::string folder = format == "image_mask" ? "masks" : "a";
    const DataOptions options = options_for(format, root.path());
    refused(options, folder + "/far.png", elsewhere / "far.png");
    refused(options, folder + "/far.png", "../../../../../../.." + elsewhere.path() + "/far.png");
    refused(options, folder + "/more", elsewhere.path());
  }
}

TEST_CASE("images and masks pair by stem, whatever their endings") {
  const TempFolder root;
  for (const char* name : {"images/2.jpg", "images/10.png", "masks/2.png", "masks/10.png"}) root.picture(name);
  const Dataset data = dataset_at(options_for("image_mask", root.path()));
  CHECK(data.task == Task::segmentation);
  CHECK(data.classes == std::vector<std::string>{"foreground"});
  CHECK(paths_of(data) == std::vector<std::string>{"images/2.jpg", "images/10.png"});
  CHECK(data.samples[0].masks == std::vector<std::string>{"masks/2.png"});
  DataOptions options = options_for("image_mask", root.path());
  options.image_mask.mask_values = {{255, 2}, {128, 1}};
  CHECK(dataset_at(options).classes == std::vector<std::string>{"1", "2"});
  options.image_mask.mask_values = {{255, 2}};
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "class 1"));
}

TEST_CASE("an image without mask and a mask without image are listed together") {
  const TempFolder root;
  for (const char* name : {"images/1.png", "images/2.png", "images/5.png", "masks/2.png", "masks/3.png", "masks/5.jpg"})
    root.picture(name);
  const std::string sentence = error_of(65, [&] { dataset_at(options_for("image_mask", root.path())); });
  CHECK(holds(sentence, "image without mask: images/1.png"));
  CHECK(holds(sentence, "mask without image: masks/3.png"));
  CHECK(holds(sentence, "mask is a JPEG, which changes pixel values: masks/5.jpg"));
  CHECK_FALSE(holds(sentence, "rename them"));
  const TempFolder bare;
  bare.picture("images/1.png");
  CHECK(holds(error_of(66, [&] { dataset_at(options_for("image_mask", bare.path())); }), "data.image_mask.masks"));
}

TEST_CASE("masks that have something behind the names of their images are told so") {
  const TempFolder root;
  for (const char* name : {"1", "2", "10"}) {
    root.picture(std::string("images/") + name + ".jpg");
    root.picture(std::string("masks/") + name + "_mask.png");
  }
  DataOptions options = options_for("image_mask", root.path());
  CHECK(holds(error_of(65, [&] { dataset_at(options); }),
              "(6 problems); masks have '_mask' after the names of their pictures; "
              "write data.image_mask.mask_suffix=_mask"));
  root.picture("masks/2_seg.png");
  CHECK_FALSE(holds(error_of(65, [&] { dataset_at(options); }), "mask_suffix"));
}

TEST_CASE("where the folders of pictures and masks are not as named, the first message has the words to write") {
  const auto told = [](const std::vector<std::string>& pictures) {
    const TempFolder root;
    for (const std::string& name : pictures) root.picture(name);
    return error_of(66, [&] { dataset_at(options_for("image_mask", root.path())); });
  };
  CHECK(holds(told({"images/a.png", "images/a_mask.png", "images/b.png", "images/b_mask.png"}),
              "data.image_mask.images=images data.image_mask.masks=images data.image_mask.mask_suffix=_mask"));
  CHECK(holds(told({"a.png", "a_gt.png", "b.png", "b_gt.png"}),
              "data.image_mask.images=. data.image_mask.masks=. data.image_mask.mask_suffix=_gt"));
  CHECK(holds(told({"train/a.png", "train/a_mask.png", "val/b.png", "val/b_mask.png"}),
              "data.image_mask.images=. data.image_mask.masks=. data.image_mask.mask_suffix=_mask"));
  CHECK(holds(told({"all/a.png", "all/a-L.png"}), "data.image_mask.images=all data.image_mask.masks=all "));
  CHECK(holds(told({"images/a.png", "labels/a.png"}), "by its name that is labels/: data.image_mask.masks=labels"));
  CHECK(holds(told({"scans/a.png", "labels/a.png"}), "data.image_mask.images=scans data.image_mask.masks=labels"));
}

TEST_CASE("masks may have a suffix after their pictures' names") {
  const TempFolder root;
  for (const char* name : {"images/1.jpg", "images/b/2.png", "masks/1_mask.png", "masks/b/2_mask.png"})
    root.picture(name);
  DataOptions options = options_for("image_mask", root.path());
  options.image_mask.mask_suffix = "_mask";
  const Dataset apart = dataset_at(options);
  CHECK(paths_of(apart) == std::vector<std::string>{"images/1.jpg", "images/b/2.png"});
  CHECK(apart.samples[1].masks == std::vector<std::string>{"masks/b/2_mask.png"});
  root.picture("masks/1.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }),
              "'_mask' is missing before the ending of 1 of 3 masks; write in "
              "data.image_mask.mask_suffix what their names have there, or leave it out:\n  masks/1.png"));

  const TempFolder one;
  for (const char* name : {"all/1.png", "all/1_seg.png", "all/2.jpg", "all/2_seg.png"}) one.picture(name);
  options = options_for("image_mask", one.path());
  options.image_mask.images = options.image_mask.masks = "all";
  options.image_mask.mask_suffix = "_seg";
  const Dataset together = dataset_at(options);
  CHECK(paths_of(together) == std::vector<std::string>{"all/1.png", "all/2.jpg"});
  CHECK(together.samples[1].masks == std::vector<std::string>{"all/2_seg.png"});
  one.picture("all/3_seg.png");
  one.picture("all/4.png");
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "image without mask: all/4.png"));
  CHECK(holds(sentence, "mask without image: all/3_seg.png"));

  const TempFolder each;
  for (const char* name : {"s1/images/x.png", "s1/masks/x_mask.png"}) each.picture(name);
  options = options_for("image_mask", each.path());
  options.image_mask.mask_suffix = "_mask";
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "in a folder of its own a sample's masks have any names"));
}

TEST_CASE("pictures are not their own masks") {
  const TempFolder root;
  for (const char* name : {"all/1.png", "all/1_mask.png", "2/both/2.png"}) root.picture(name);
  DataOptions options = options_for("image_mask", root.path());
  for (const char* folder : {"all", "both"}) {
    options.image_mask.images = folder;
    options.image_mask.masks = folder;
    CHECK(holds(error_of(78, [&] { dataset_at(options); }), std::string("the same folder, '") + folder + "'"));
  }
  options.image_mask.images = "all";
  options.image_mask.masks = "./all/";
  CHECK(holds(error_of(78, [&] { dataset_at(options); }), "each picture would be its own mask"));
}

TEST_CASE("a folder per sample unites its masks") {
  const TempFolder root;
  for (const char* name :
       {"s1/images/x.png", "s1/masks/m1.png", "s1/masks/m2.png", "s2/images/y.png", "s2/masks/m.png"})
    root.picture(name, Image{1, 3, 1, 8, {0, 0, 0}, {}});
  root.picture("s1/masks/m1.png", Image{1, 3, 1, 8, {255, 128, 0}, {}});
  root.picture("s1/masks/m2.png", Image{1, 3, 1, 8, {0, 255, 7}, {}});
  DataOptions options = options_for("image_mask", root.path());
  options.image_mask.mask_values = {{255, 1}, {128, 2}};
  const Dataset data = dataset_at(options);
  REQUIRE(paths_of(data) == std::vector<std::string>{"s1/images/x.png", "s2/images/y.png"});
  CHECK(read_mask(data, 0).bytes == std::vector<uint8_t>{1, 1, 0});
  options.classes = {"2"};
  const Dataset one = dataset_at(options);
  CHECK(one.classes == options.classes);
  CHECK(read_mask(one, 0).bytes == std::vector<uint8_t>{0, 1, 0});
  root.picture("s2/images/z.png");
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "s2/images/z.png"));
}

TEST_CASE("pixels of a mask are counted by class, and its raw values told") {
  const TempFolder root;
  root.picture("s/images/x.png", Image{1, 4, 1, 8, {0, 0, 0, 0}, {}});
  root.picture("s/masks/m1.png", Image{1, 4, 1, 8, {255, 128, 0, 7}, {}});
  root.picture("s/masks/m2.png", Image{1, 4, 1, 8, {0, 0, 0, 9}, {}});
  root.picture("t/images/y.png", random_image(32, 32, 1, 1));
  root.picture("t/masks/m.png", random_image(32, 32, 1, 2));
  DataOptions options = options_for("image_mask", root.path());
  options.image_mask.mask_values = {{255, 1}, {128, 2}, {3, 3}};
  const Dataset data = dataset_at(options);
  CHECK(count_mask_pixels(read_mask(data, 0), 3) == std::vector<int64_t>{2, 1, 1, 0});
  CHECK(mask_values_found(data, 0) == std::vector<int64_t>{0, 7, 9, 128, 255});
  CHECK(mask_values_found(data, 1).size() == 16);
  CHECK(unlisted_mask_values(data, 0, read_sample_files(data, 0)) == std::map<int64_t, int64_t>{{7, 1}, {9, 1}});
  CHECK(mask_file(data, 0) == "s/masks/m1.png");
  error_of(70, [&] { count_mask_pixels(read_mask(data, 0), 1); });
}

TEST_CASE("masks that differ in size or are coloured are refused by name") {
  const TempFolder root;
  root.picture("s/images/x.png");
  root.picture("s/masks/a.png");
  root.picture("s/masks/b.png", random_image(3, 4, 1, 1));
  const DataOptions options = options_for("image_mask", root.path());
  const Dataset data = dataset_at(options);
  const std::string sentence = error_of(65, [&] { read_mask(data, 0); });
  CHECK(holds(sentence, "s/masks/a.png"));
  CHECK(holds(sentence, "s/masks/b.png"));
  root.picture("s/masks/b.png", random_image(4, 4, 3, 1));
  CHECK(holds(error_of(65, [&] { read_mask(data, 0); }), "coloured"));
  CHECK(holds(error_of(65, [&] { require_same_size(data, 0, random_image(5, 4, 1, 1), random_image(4, 4, 1, 1)); }),
              "s/images/x.png"));
}

TEST_CASE("mask_values of a PNG with a coloured palette are its indices") {
  const TempFolder root;
  const PngKind kind{.color_type = PNG_COLOR_TYPE_PALETTE, .depth = 4, .width = 4, .height = 3};
  const auto file = make_png(kind);
  root.picture("images/a.png", random_image(3, 4, 1, 1));
  root.text("masks/a.png", {reinterpret_cast<const char*>(file.data()), file.size()});
  DataOptions options = options_for("image_mask", root.path());
  options.image_mask.mask_values = {{2, 1}, {15, 2}};
  for (uint32_t x = 3; x < 15; ++x) options.image_mask.mask_values[x] = 1 + x % 2;
  std::vector<uint8_t> classes;
  std::set<int64_t> values;
  for (uint32_t y = 0; y < kind.height; ++y)
    for (uint32_t x = 0; x < kind.width; ++x) {
      const int64_t index = sample_at(kind, x, y, 0);
      values.insert(index);
      const auto found = options.image_mask.mask_values.find(index);
      classes.push_back(static_cast<uint8_t>(found == options.image_mask.mask_values.end() ? 0 : found->second));
    }
  const Dataset data = dataset_at(options);
  CHECK(read_mask(data, 0).bytes == classes);
  CHECK(mask_values_found(data, 0) == std::vector<int64_t>(values.begin(), values.end()));
}

TEST_CASE("synthetic samples are the same for a seed, and differ by seed") {
  DataOptions options = options_for("synthetic", "");
  options.synthetic = {50, 5};
  options.image.height = options.image.width = 16;
  for (const Task task : {Task::multilabel, Task::multiclass, Task::segmentation}) {
    const Dataset data = open_dataset(options, task, 7);
    const Dataset again = open_dataset(options, task, 7);
    CHECK(data.samples.size() == 50);
    CHECK(data.classes.size() == 5);
    CHECK(data.manifest_sha256 == again.manifest_sha256);
    CHECK(data.manifest_sha256 != open_dataset(options, task, 8).manifest_sha256);
    CHECK(read_picture(data, 3).bytes == read_picture(again, 3).bytes);
    CHECK(read_picture(data, 3).bytes != read_picture(open_dataset(options, task, 8), 3).bytes);
    CHECK(read_picture(data, 3).bytes != read_picture(data, 4).bytes);
    CHECK(read_picture(data, 3).channels == 3);
  }
}

TEST_CASE("a synthetic mask covers what is bright") {
  DataOptions options = options_for("synthetic", "");
  options.synthetic = {4, 1};
  options.image.height = 64;
  options.image.width = 48;
  options.image.channels = 1;
  const Dataset data = open_dataset(options, Task::segmentation, 7);
  const Image picture = read_picture(data, 2);
  const Image mask = read_mask(data, 2);
  int64_t covered = 0;
  for (size_t i = 0; i < mask.bytes.size(); ++i) {
    CHECK((picture.bytes[i] > 150) == (mask.bytes[i] == 1));
    covered += mask.bytes[i];
  }
  CHECK(covered > 0);
}

TEST_CASE("chosen classes keep a synthetic sample's picture") {
  DataOptions options = options_for("synthetic", "");
  options.synthetic = {60, 4};
  options.image.height = options.image.width = 16;
  const Dataset all = open_dataset(options, Task::multiclass, 7);
  options.classes = {"pattern_3", "pattern_1"};
  const Dataset some = open_dataset(options, Task::multiclass, 7);
  CHECK(some.samples.size() < all.samples.size());
  for (size_t i = 0, j = 0; i < some.samples.size(); ++i) {
    while (all.samples[j].path != some.samples[i].path) ++j;
    CHECK(some.samples[i].class_index == (all.samples[j].class_index == 3 ? 0 : 1));
    CHECK(read_picture(some, static_cast<int64_t>(i)).bytes == read_picture(all, static_cast<int64_t>(j)).bytes);
  }
}

TEST_CASE("the manifest hash sees labels, names and file sizes, not the place of root") {
  const TempFolder one;
  const TempFolder two;
  for (const TempFolder* root : {&one, &two})
    for (const char* name : {"a/1.png", "b/2.png"}) root->picture(name);
  const auto hash = [](const TempFolder& root) {
    return dataset_at(options_for("image_folder", root.path())).manifest_sha256;
  };
  const std::string first = hash(one);
  CHECK(first.size() == 64);
  CHECK(first == hash(two));
  two.picture("b/2.png", random_image(9, 9, 1, 1));
  CHECK(first != hash(two));
}

TEST_CASE("a task that the format cannot give is refused") {
  const TempFolder root;
  root.picture("a/1.png");
  error_of(78, [&] { open_dataset(options_for("image_folder", root.path()), Task::segmentation, 1); });
  error_of(78, [&] { open_dataset(options_for("image_mask", root.path()), Task::multilabel, 1); });
}
