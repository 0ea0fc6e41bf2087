#include "support/records.hpp"

#include <cmath>
#include <numeric>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/data/formats/record_labels.hpp"
#include "dtrain/data/order/split.hpp"
#include "folder.hpp"
#include "tiff_stack.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::string png_of(const Image& image) {
  const std::vector<std::byte> bytes = encode_png(image);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string picture_text(unsigned seed) { return png_of(random_image(6, 5, 1, seed)); }

/// A record with a picture made from `seed` and the label feature.
std::string labelled_record(unsigned seed, const std::string& label) {
  return tfrecord(example({{"image/class/label", label}, {"image/encoded", bytes_feature({picture_text(seed)})}}));
}

std::string read_text_of(const Dataset& data, int64_t index) {
  const SampleFiles files = read_sample_files(data, index);
  return {reinterpret_cast<const char*>(files.picture.data()), files.picture.size()};
}

/// Three TFRecord files of four records each, one of them gzipped; labels 0 1 2 0 …, pictures by their numbers.
DataOptions tfrecord_set(const TempFolder& root) {
  for (unsigned file = 0; file < 3; ++file) {
    std::string text;
    for (unsigned i = 4 * file; i < 4 * file + 4; ++i) text += labelled_record(i, int64_feature({i % 3}));
    const std::string name = "deep/part-0000" + std::to_string(file) + "-of-00003";
    root.text(file == 1 ? name + ".gz" : name, file == 1 ? gzip(text) : text);
  }
  root.text("README.md", "no record file");
  return options_for("tfrecord", root.path());
}

}  // namespace

TEST_CASE("records of several TFRecord files are samples, read in any order by any thread") {
  const TempFolder root;
  const Dataset data = dataset_at(tfrecord_set(root));
  CHECK(data.task == Task::multiclass);
  CHECK(data.classes == std::vector<std::string>{"0", "1", "2"});
  REQUIRE(data.samples.size() == 12);
  CHECK(data.samples[5].path == "deep/part-00001-of-00003.gz/1");
  CHECK(data.notes[0].starts_with("3 TFRecord files, 12 records"));
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 11; i >= 0; --i) {
        const int64_t index = (i * 5 + static_cast<int64_t>(t)) % 12;
        good[t] += read_text_of(data, index) == picture_text(static_cast<unsigned>(index)) ? 1 : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(good == std::vector<int>(4, 12));
  for (size_t i = 0; i < 12; ++i) CHECK(data.samples[i].class_index == static_cast<int64_t>(i % 3));
  CHECK(read_picture(data, 7).bytes == random_image(6, 5, 1, 7).bytes);
}

TEST_CASE("labels in TFRecords are numbers, names, flags or lists of names") {
  const TempFolder root;
  DataOptions options = options_for("tfrecord", root.path());
  const auto write = [&](const std::vector<std::string>& labels) {
    std::string text;
    for (size_t i = 0; i < labels.size(); ++i) text += labelled_record(static_cast<unsigned>(i), labels[i]);
    root.text("a.tfrecord", text);
  };
  write({int64_feature({10}), int64_feature({2}), int64_feature({10})});
  CHECK(dataset_at(options).classes == std::vector<std::string>{"2", "10"});
  CHECK(dataset_at(options).samples[0].class_index == 1);
  options.tfrecord.names = {"none", "cat", "dog"};
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "a.tfrecord: record 0 at byte 0: '10'"));
  write({int64_feature({2}), bytes_feature({"cat"})});
  CHECK(dataset_at(options).classes.size() == 3);
  CHECK(dataset_at(options).samples[0].class_index == 2);
  CHECK(dataset_at(options).samples[1].class_index == 1);
  options.tfrecord.names = {};
  options.classes = {"dog"};
  write({bytes_feature({"dog"}), bytes_feature({"cat"})});
  CHECK(dataset_at(options).samples.size() == 1);
  options.classes = {};
  write({int64_feature({0, 1, 1}), float_feature({1, NAN, 0})});
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "record 0 at byte 0: 3 values"));
  const Dataset flags = dataset_at(options, Task::multilabel);
  CHECK(flags.classes == std::vector<std::string>{"0", "1", "2"});
  CHECK(flags.samples[0].labels == std::vector<float>{0, 1, 1});
  CHECK(std::isnan(flags.samples[1].labels[1]));
  write({int64_feature({0, 1, 1}), int64_feature({0, 1}), int64_feature({0, 2, 0}), bytes_feature({"x"})});
  const std::string sentence = error_of(65, [&] { dataset_at(options, Task::multilabel); });
  CHECK(holds(sentence, "record 1 at byte"));
  CHECK(holds(sentence, "2 numbers"));
  CHECK(holds(sentence, "the value 2"));
  CHECK(holds(sentence, "no numbers"));
  write({bytes_feature({"a", "c"}), bytes_feature({}), bytes_feature({"b"})});
  const Dataset names = dataset_at(options, Task::multilabel);
  CHECK(names.classes == std::vector<std::string>{"a", "b", "c"});
  CHECK(names.samples[0].labels == std::vector<float>{1, 0, 1});
  CHECK(names.samples[1].labels == std::vector<float>{0, 0, 0});
  error_of(78, [&] { dataset_at(options, Task::segmentation); });
}

TEST_CASE("a record without what the configuration names, or damaged, is named with file, number and offset") {
  const TempFolder root;
  DataOptions options = options_for("tfrecord", root.path());
  const std::string first = labelled_record(1, int64_feature({1}));
  root.text("a.tfrecord", first + tfrecord(example({{"label", int64_feature({1})}})));
  const std::string place = "a.tfrecord: record 1 at byte ";
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), place));
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "has no feature 'image/encoded'"));
  root.text("a.tfrecord", first + first + labelled_record(2, int64_feature({2})));
  options.tfrecord.group = "patient";
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "data.tfrecord.group"));
  options.tfrecord.group = "";
  const std::string whole = first + first + labelled_record(2, int64_feature({2}));
  std::string bad = whole;
  bad[2 * first.size() - 20] ^= 1;  // in the picture of record 1
  root.text("a.tfrecord", bad);
  const Dataset data = dataset_at(options);
  CHECK(read_text_of(data, 0) == picture_text(1));
  CHECK(holds(error_of(65, [&] { read_sample_files(data, 1); }), place));
  CHECK(holds(error_of(65, [&] { read_sample_files(data, 1); }), "wrong checksum"));
  CHECK(read_text_of(data, 2) == picture_text(2));
  bad = whole;
  bad[first.size()] ^= 1;
  root.text("a.tfrecord", bad);
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), place));
  root.text(
      "a.tfrecord",
      tfrecord(example({{"image/class/label", int64_feature({0})}, {"image/encoded", bytes_feature({"GIF89a"})}})));
  CHECK(holds(error_of(65, [&] { read_picture(dataset_at(options), 0); }), "record 0 at byte 0"));
  const TempFolder empty;
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("tfrecord", empty.path())); }), "holds no TFRecord file"));
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("webdataset", empty.path())); }), "holds no tar archive"));
}

TEST_CASE("a record file that changes after it was opened is told, not read") {
  const TempFolder root;
  DataOptions options = tfrecord_set(root);
  const Dataset data = dataset_at(options);
  root.text("deep/part-00000-of-00003", labelled_record(9, int64_feature({9})));
  for (int64_t i = 1; i < 4; ++i) CHECK_THROWS_AS(read_sample_files(data, i), IoError);
}

TEST_CASE("of more record files than may be open each is still read") {
  const TempFolder root;
  const unsigned count = RecordSet::kMostOpen + 40;
  for (unsigned i = 0; i < count; ++i)
    root.text(std::to_string(1000 + i) + ".tfrecords", labelled_record(i, int64_feature({i % 2})));
  const Dataset data = dataset_at(options_for("tfrecord", root.path()));
  REQUIRE(data.samples.size() == count);
  for (unsigned i = 0; i < 2 * count; ++i) CHECK(read_text_of(data, i * 7 % count) == picture_text(i * 7 % count));
  int64_t open_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    open_files += holds(std::filesystem::read_symlink(entry, gone).string(), root.path()) ? 1 : 0;
  }
  CHECK(open_files == static_cast<int64_t>(RecordSet::kMostOpen));
}

TEST_CASE("names of record files tell the parts where there are training and validation files") {
  const TempFolder root;
  for (const char* name :
       {"train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "test.tfrecord"})
    root.text(name, labelled_record(1, int64_feature({0})) + labelled_record(2, int64_feature({1})));
  DataOptions options = options_for("tfrecord", root.path());
  const Split split = split_dataset(dataset_at(options), options.split);
  CHECK(split.train.size() == 4);
  CHECK(split.valid.size() == 2);
  CHECK(split.test.size() == 2);
  CHECK(part_of_file("a/trainer.tfrecord").empty());
  CHECK(part_of_file("val_1.tar") == "valid");
  std::filesystem::remove(root / "validation-00000-of-00001");
  const Split tested = split_dataset(dataset_at(options), options.split);
  CHECK(tested.train.size() == 4);
  CHECK(tested.valid.empty());
  CHECK(tested.test.size() == 2);
  options.split.given = true;
  options.split.folders = {{"train", "train-00000-of-00002"}, {"valid", "test.tfrecord"}};
  CHECK(split_dataset(dataset_at(options), options.split).train.size() == 2);
}

TEST_CASE("patients in records are groups of the split") {
  const TempFolder root;
  std::string text;
  for (unsigned i = 0; i < 20; ++i)
    text += tfrecord(example({{"image/class/label", int64_feature({i % 2})},
                              {"image/encoded", bytes_feature({picture_text(i)})},
                              {"patient", int64_feature({INT64_MAX - i / 4})}}));
  root.text("a.tfrecord", text);
  DataOptions options = options_for("tfrecord", root.path());
  options.tfrecord.group = "patient";
  options.split.valid = 0.2;
  options.split.by = SplitOptions::By::patient;
  options.split.stratify = true;
  const Dataset data = dataset_at(options);
  const Split split = split_dataset(data, options.split);
  REQUIRE(split.valid.size() == 4);
  for (const int64_t index : split.valid)
    CHECK(data.samples[static_cast<size_t>(index)].group == data.samples[static_cast<size_t>(split.valid[0])].group);
}

TEST_CASE("compressed record files are held up to data.loader.decompressed_mb, all of them together") {
  const TempFolder root;
  for (const char* name : {"a.tar.gz", "b.tar.gz"})
    root.text(name, gzip(tar_member("1.png", std::string(600'000, 'x')) + tar_member("1.cls", "0") +
                         std::string(1024, '\0')));
  DataOptions options = options_for("webdataset", root.path());
  CHECK(dataset_at(options).samples.size() == 2);
  options.loader.decompressed_mb = 1;
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "b.tar.gz holds more than 39"));
  CHECK(holds(sentence, "the rest of data.loader.decompressed_mb"));
}

TEST_CASE("the manifest of record files changes with any byte of a record and any label") {
  const TempFolder root;
  const DataOptions options = options_for("tfrecord", root.path());
  const auto manifest = [&](unsigned seed, int64_t label) {
    root.text("a.tfrecord", labelled_record(seed, int64_feature({label})) + labelled_record(5, int64_feature({1})));
    return dataset_at(options).manifest_sha256;
  };
  const std::string first = manifest(1, 1);
  CHECK(first == manifest(1, 1));
  CHECK(first != manifest(2, 1));
  CHECK(first != manifest(1, 0));
}

TEST_CASE("masks in TFRecords and archives make a segmentation set") {
  const TempFolder root;
  const Image picture = random_image(2, 3, 1, 5);
  const Image mask{2, 3, 1, 8, {0, 255, 0, 7, 255, 0}, {}};
  root.text(
      "a.tfrecord",
      tfrecord(example({{"m", bytes_feature({png_of(mask)})}, {"image/encoded", bytes_feature({png_of(picture)})}})));
  root.text("a.tar", tar_member("x/1.seg.png", png_of(mask)) + tar_member("x/1.png", png_of(picture)) + tar_end());
  DataOptions options = options_for("tfrecord", root.path());
  options.tfrecord.mask = "m";
  DataOptions tar = options_for("webdataset", root.path());
  tar.webdataset.mask = "seg.png";
  for (DataOptions* format : {&options, &tar}) {
    const Dataset data = dataset_at(*format);
    CHECK(data.task == Task::segmentation);
    CHECK(data.classes == std::vector<std::string>{"foreground"});
    CHECK(read_mask(data, 0).bytes == std::vector<uint8_t>{0, 1, 0, 0, 1, 0});
    CHECK(read_picture(data, 0).bytes == picture.bytes);
    CHECK(mask_values_found(data, 0) == std::vector<int64_t>{0, 7, 255});
    CHECK(read_sample_files(data, 0).masks.size() == 1);
  }
}

TEST_CASE("a thousand files of one key are no sample") {
  const TempFolder root;
  std::string archive;
  for (int i = 0; i <= 1000; ++i) archive += tar_member("scan." + std::to_string(i) + ".png", "x");
  root.text("a.tar", archive + tar_end());
  CHECK(holds(error_of(65, [&] { dataset_at(options_for("webdataset", root.path())); }), "up to the first dot"));
}

TEST_CASE("members of an archive with one key are one sample, wherever they stand") {
  const TempFolder root;
  root.text("a.tgz", gzip(tar_member("x/1.png", picture_text(1)) + tar_member("x/1.json", R"({"label":"cat","p":7})") +
                          tar_member("notes.txt", "about this set") + tar_member("x/1.cls", "2\n") +
                          tar_member("x/2.cls", "0") + tar_end()));
  DataOptions options = options_for("webdataset", root.path());
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "a.tgz: the sample 'x/2' at byte"));
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "has no .png or .jpg or .jpeg"));
  root.text("a.tgz", "");
  std::filesystem::remove(root / "a.tgz");
  root.text("b.tar", tar_member("x/1.png", picture_text(1)) + tar_member("x/2.png", picture_text(2)) +
                         tar_member("x/2.json", R"({"label":"dog","p":"q"})") +
                         tar_member("x/1.json", R"({"label":"cat","p":7})") +
                         tar_member("notes.txt", "about this set") + tar_member("x/1.cls", "2\n") +
                         tar_member("x/2.cls", "0") + tar_end());
  const Dataset data = dataset_at(options);
  CHECK(paths_of(data) == std::vector<std::string>{"b.tar/x/1.png", "b.tar/x/2.png"});
  CHECK(data.classes == std::vector<std::string>{"0", "2"});
  CHECK(read_text_of(data, 1) == picture_text(2));
  CHECK(data.notes.back() == "1 group without picture and label left out");
  options.webdataset.label = "json:label";
  options.webdataset.group = "json:p";
  const Dataset named = dataset_at(options);
  CHECK(named.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(named.samples[0].group == "7");
  CHECK(named.samples[1].group == "q");
  options.webdataset.label = "json:species";
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "b.tar/x/1.json at byte"));
  options.webdataset.label = "lbl";
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "has no .lbl"));
  root.text("b.tar", tar_member("1.png", "a") + tar_member("1.cls", "0") + tar_member("1.png", "b") + tar_end());
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "holds '1.png' twice"));
  root.text("b.tar", tar_member("1.png", "no picture") + tar_member("1.cls", "0") + tar_end());
  options.webdataset = {};
  CHECK(holds(error_of(65, [&] { read_picture(dataset_at(options), 0); }), "b.tar/1.png at byte 512"));
}

TEST_CASE("data.root may be one record file, whose samples are those of its folder") {
  const TempFolder root;
  root.text("one.tfrecord", labelled_record(1, int64_feature({0})) + labelled_record(2, int64_feature({1})));
  root.text("one.tar", tar_member("x/1.png", picture_text(1)) + tar_member("x/1.cls", "0") +
                           tar_member("x/2.png", picture_text(2)) + tar_member("x/2.cls", "1") + tar_end());
  for (const auto& [format, name] : {std::pair{"tfrecord", "one.tfrecord"}, {"webdataset", "one.tar"}}) {
    const DataOptions folder = options_for(format, root.path());
    const DataOptions file = options_for(format, root / name);
    const Dataset data = dataset_at(file);
    CHECK(paths_of(data) == paths_of(dataset_at(folder)));
    CHECK(data.manifest_sha256 == dataset_at(folder).manifest_sha256);
    CHECK(read_picture(data, 1).bytes == random_image(6, 5, 1, 2).bytes);
    CHECK(picture_name(data, 1).starts_with(root / name));
  }
  std::filesystem::copy(root / "one.tar", root / "other");
  CHECK(paths_of(dataset_at(options_for("webdataset", root / "other")))[0] == "other/x/1.png");
  CHECK(holds(error_of(66, [&] { dataset_at(options_for("tfrecord", root / "none.tfrecord")); }), "data.root"));
}

TEST_CASE("a stack in an archive is refused with what can be done there") {
  const TempFolder root;
  const std::string stack = tiff_stack(std::vector<Image>(3, Image{2, 2, 1, 8, {1, 2, 3, 4}, {}}));
  root.text("a.tar", tar_member("0.tif", stack) + tar_member("0.cls", "1") + tar_end());
  DataOptions options = options_for("webdataset", root.path());
  options.webdataset.image = {"tif"};
  const Dataset data = dataset_at(options);
  const std::string sentence = error_of(65, [&] { read_picture(data, 0); });
  CHECK(holds(sentence, "a.tar/0.tif at byte 512 is a stack of 3 pages"));
  CHECK(holds(sentence, "write its pages as separate members (records)"));
  CHECK(!holds(sentence, "512#1"));
}

TEST_CASE("a class or group that is an empty field by another name is refused with such samples") {
  const TempFolder root;
  root.text("a.tar", tar_member("1.png", picture_text(1)) + tar_member("1.cls", "cat") + tar_member("1.pid", "7") +
                         tar_member("2.png", picture_text(2)) + tar_member("2.cls", "NaN") +
                         tar_member("2.pid", "nan") + tar_end());
  DataOptions options = options_for("webdataset", root.path());
  const std::string wrong = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(wrong, "has a class called 'NaN', which programs write for an empty field"));
  CHECK(holds(wrong, "a.tar/2.png"));
  CHECK(!holds(wrong, "a.tar/1.png"));
  root.text("a.tar", tar_member("1.png", picture_text(1)) + tar_member("1.cls", "cat") + tar_member("1.pid", "7") +
                         tar_member("2.png", picture_text(2)) + tar_member("2.cls", "nanny") +
                         tar_member("2.pid", "nan") + tar_end());
  CHECK(dataset_at(options).classes == std::vector<std::string>{"cat", "nanny"});
  options.webdataset.group = "pid";
  const std::string joined = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(joined, "has 1 sample of the patient or group 'nan'"));
  CHECK(holds(joined, "a.tar/2.png"));
}

TEST_CASE("a picture or label in an archive without a name before its dot is refused, what macOS leaves is not") {
  const TempFolder root;
  const std::string good = tar_member("1.png", picture_text(1)) + tar_member("1.cls", "a") +
                           tar_member("2.png", picture_text(2)) + tar_member("2.cls", "b");
  const DataOptions options = options_for("webdataset", root.path());
  root.text("a.tar", good + tar_member("d/._3.png", "resource") + tar_end());
  CHECK(dataset_at(options).samples.size() == 2);
  for (const char* name : {".png", "d/.PNG", "d/.cls"}) {
    root.text("a.tar", good + tar_member(name, picture_text(3)) + tar_end());
    const std::string wrong = error_of(65, [&] { dataset_at(options); });
    CHECK(holds(wrong, std::string("holds '") + name + "' at byte "));
    CHECK(holds(wrong, "a sample needs a name before the dot"));
  }
}

TEST_CASE("archives whose names have dots before their endings are refused with the endings that they have") {
  const TempFolder root;
  root.text("a.tar", tar_member("img.v0.png", picture_text(1)) + tar_member("img.v0.cls", "0") +
                         tar_member("README", "") + tar_end());
  DataOptions options = options_for("webdataset", root.path());
  const std::string sentence = error_of(65, [&] { dataset_at(options); });
  CHECK(holds(sentence, "a key ends at the first dot of a name"));
  CHECK(
      holds(sentence, "the members end in .v0.cls, .v0.png: name such endings with data.webdataset.image and .label"));
  options.webdataset.image = {"v0.png"};
  options.webdataset.label = "v0.cls";
  CHECK(paths_of(dataset_at(options)) == std::vector<std::string>{"a.tar/img.v0.png"});
  options.webdataset.label = "json:class";
  options.webdataset.image = {"webp"};
  CHECK(holds(error_of(65, [&] { dataset_at(options); }), "no .webp or .json follows one"));
}
