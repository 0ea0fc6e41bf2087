#include "dtrain/io/records/tfrecord.hpp"

#include <iostream>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/io/records/tf_example.hpp"
#include "records.hpp"
#include "support/catch.hpp"
#include "support/memory_file_system.hpp"
#include "support/memory_watch.hpp"
#include "support/text.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

RecordFile tfrecord_file(const std::string& text) { return {"a.tfrecord", to_bytes(text)}; }

std::vector<std::string> data_of(const RecordFile& file) {
  std::vector<std::string> all;
  for (const TfRecordPlace& place : all_tfrecords(file))
    all.push_back(to_text(read_tfrecord(file, place.number, place.offset, place.size)));
  return all;
}

std::string tfrecord_refusal(const std::string& text) {
  return error_of<DataError>([&] { data_of(tfrecord_file(text)); });
}

std::vector<std::string> random_records(std::mt19937& random, size_t count) {
  std::vector<std::string> records;
  for (size_t i = 0; i < count; ++i) records.push_back(random_text(random, i == 1 ? 0 : random() % 3000));
  return records;
}

std::string tfrecords_of(const std::vector<std::string>& records) {
  std::string text;
  for (const std::string& record : records) text += tfrecord(record);
  return text;
}

FieldValues values_of(const std::string& message, const std::string& feature) {
  const RecordFile file = tfrecord_file(message);
  ByteWindow bytes(file);
  for (const FeaturePlace& place : find_features(bytes, 0, bytes.size(), "it"))
    if (place.name == feature) return read_feature(bytes, place, "it");
  return {};
}

std::string example_refusal(const std::string& message) {
  return error_of<DataError>([&] { values_of(message, "a"); });
}

}  // namespace

TEST_CASE("a checksum is masked as TFRecord does it") {
  // The length 24 and its checksum, from the start of a TensorBoard file.
  const std::string start("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12);
  CHECK(tfrecord(std::string(24, 'x')).substr(0, 12) == start);
  CHECK(masked_crc(0) == 0xA282EAD8U);
}

TEST_CASE("records come back from memory, from disk, and from gzip and zlib files") {
  std::mt19937 random(1);
  const TempFolder folder;
  const std::vector<std::string> records = random_records(random, 40);
  const std::string text = tfrecords_of(records);
  CHECK(data_of(tfrecord_file(text)) == records);
  const std::string path = folder.file("a.tfrecord");
  for (const std::string& bytes : {text, gzip(text), zlib(text), gzip(text.substr(0, 999)) + gzip(text.substr(999))}) {
    write_plainly(path, bytes);
    const RecordFile file = open_tfrecord_file(path, kMuch);
    CHECK(file.in_memory() == (bytes.size() != text.size()));
    CHECK(data_of(file) == records);
  }
  write_plainly(path, "");
  CHECK(data_of(open_tfrecord_file(path, kMuch)).empty());
}

TEST_CASE("a plain record whose length looks like the start of a compressed file is a plain record") {
  const TempFolder folder;
  const std::string path = folder.file("a.tfrecord");
  for (const size_t size : {size_t{0x9C78}, size_t{0x8B1F}}) {
    write_plainly(path, tfrecord(std::string(size, 'a')));
    CHECK(data_of(open_tfrecord_file(path, kMuch)) == std::vector<std::string>{std::string(size, 'a')});
  }
}

TEST_CASE("a damaged or truncated record is refused with file, number and offset") {
  const std::string text = tfrecord("first") + tfrecord("second") + tfrecord("third");
  const auto with = [&](size_t at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    return tfrecord_refusal(changed);
  };
  CHECK(holds(with(0),
              "a.tfrecord: record 0 at byte 0: the length has a wrong checksum: damaged, or not a TFRecord file"));
  CHECK(holds(with(21), "record 1 at byte 21: the length has a wrong checksum"));
  CHECK(holds(with(30), "record 1 at byte 21: the length has a wrong checksum"));
  CHECK(holds(with(34), "record 1 at byte 21: the data have a wrong checksum"));
  CHECK(holds(with(text.size() - 1), "record 2 at byte 43: the data have a wrong checksum"));
  CHECK(holds(tfrecord_refusal(text.substr(0, 50)), "record 2 at byte 43: the file ends within the length"));
  CHECK(holds(tfrecord_refusal(text.substr(0, 60)), "record 2 at byte 43: its 5 bytes reach beyond the end"));
  CHECK(holds(tfrecord_refusal("something quite different"), "not a TFRecord file"));
}

TEST_CASE("a length of a terabyte with a right checksum is refused before anything is allocated") {
  std::string length = tfrecord(std::string(1, 'a')).substr(0, 12);
  for (const uint64_t size : {uint64_t{1} << 40, ~uint64_t{0}, (uint64_t{1} << 30) + 1, uint64_t{1} << 30}) {
    std::string eight;
    for (int i = 0; i < 8; ++i) eight += static_cast<char>(size >> (8 * i) & 0xFF);
    const std::string sentence = tfrecord_refusal(eight + tfrecord(eight).substr(20, 4) + "abc");
    CHECK((holds(sentence, "more than the 1,073,741,824") || holds(sentence, "reach beyond")));
  }
}

TEST_CASE("20,000 random damages to a TFRecord file are found or leave whole records") {
  const unsigned seed = std::random_device{}();
  std::cout << "tfrecord damage seed " << seed << "\n";
  std::mt19937 random(seed);
  const std::vector<std::string> records = random_records(random, 5);
  const std::string text = tfrecords_of(records);
  const std::set<std::string> known(records.begin(), records.end());
  int found = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string bad = damaged(text, random);
    std::vector<std::string> got;
    if (const std::string sentence = error_of<DataError>([&] { got = data_of(tfrecord_file(bad)); });
        !sentence.empty()) {
      ++found;
      if (!holds(sentence, "a.tfrecord: record ")) FAIL(sentence);
      continue;
    }
    // A cut between records, a record taken out, or zeros instead of zeros: the records that come are complete.
    for (const std::string& record : got)
      if (!known.contains(record)) FAIL("damage " << i << " was read as a record");
    if (got != records && got.size() >= records.size()) FAIL("damage " << i << " made a record");
  }
  CHECK(found > 19'000);
}

TEST_CASE("damaged compressed files are refused, and those that hold more than allowed") {
  std::mt19937 random(2);
  const std::string text = tfrecords_of(random_records(random, 6));
  for (const Compression kind : {Compression::gzip, Compression::zlib}) {
    const std::string packed = kind == Compression::gzip ? gzip(text) : zlib(text);
    const auto read = [&](const std::string& bytes, int64_t most = kMuch) {
      std::string got = text;
      std::string sentence = error_of<DataError>(
          [&] { got = to_text(decompressed(RecordFile("a.gz", to_bytes(bytes)), kind, most).bytes()); });
      CHECK(got == text);
      return sentence;
    };
    const auto size = static_cast<int64_t>(text.size());
    CHECK(read(packed, size).empty());
    CHECK(holds(read(packed, size - 1), "holds more than"));
    CHECK(holds(read(packed.substr(0, packed.size() - 1)), "cut short"));
    CHECK(holds(read(packed.substr(0, packed.size() / 2)), "cut short"));
    CHECK(holds(read(packed + "x"), "something else follows"));
    std::string bad = packed;
    bad[bad.size() - 6] = static_cast<char>(bad[bad.size() - 6] ^ 4);
    CHECK_FALSE(read(bad).empty());
  }
  const std::string bomb = gzip(std::string(size_t{64} << 20, '\0'));
  CHECK(
      holds(error_of<DataError>([&] { decompressed(RecordFile("a.gz", to_bytes(bomb)), Compression::gzip, 1 << 20); }),
            "a.gz holds more than 1,048,576 bytes"));
}

TEST_CASE("decompressing takes at most a fifth more memory than what comes of it") {
  const TempFolder folder;
  constexpr int64_t kBytes = int64_t{64} << 20;
  {
    std::mt19937 random(3);
    std::string noise(1 << 20, '\0');
    for (char& letter : noise) letter = static_cast<char>(random());
    std::string record;
    for (int64_t i = 0; i < kBytes >> 20; ++i) record += i % 4 == 0 ? noise : std::string(1 << 20, 'x');
    write_plainly(folder.file("a.gz"), gzip(tfrecords_of({record})));
  }
  const MemoryWatch memory;
  const RecordFile file = open_tfrecord_file(folder.file("a.gz"), kMuch);
  const int64_t grown = memory.grown_mb() << 20;
  CHECK(file.in_memory());
  CHECK(file.size() == kBytes + 16);
  if (!memory.works()) return;
  CHECK(grown > kBytes / 2);
  CHECK(grown <= kBytes * 12 / 10);
}

TEST_CASE("a file that is cut while it is open, and a disk that fails, are told") {
  MemoryFileSystem disk(test::DiskImage{{"/a", tfrecords_of({"first", "second"})}});
  const RecordFile file("/a", disk);
  disk.plan({Fault::Kind::error, EIO, 1, true});
  CHECK(holds(error_of<IoError>([&] { all_tfrecords(file); }), "cannot read /a"));
  const TempFolder folder;
  write_plainly(folder.file("b"), tfrecords_of({"first", "second"}));
  const RecordFile shrinking(folder.file("b"));
  std::filesystem::resize_file(folder.file("b"), 30);
  CHECK(holds(error_of<IoError>([&] { all_tfrecords(shrinking); }), "it was cut meanwhile"));
  CHECK(holds(error_of<DataError>([&] { RecordFile(folder.path()); }), "not a regular file"));
  CHECK_FALSE(error_of<MissingError>([&] { RecordFile(folder.file("none")); }).empty());
}

TEST_CASE("features of an Example are read, packed or not, in any order, with unknown fields between") {
  for (const bool packed : {true, false}) {
    const std::string message = message_field(9, "unknown") + example({{"b", int64_feature({0, -1, INT64_MAX}, packed)},
                                                                       {"a", bytes_feature({"x", "", "größe"})},
                                                                       {"f", float_feature({1.5F, -0.25F}, packed)},
                                                                       {"none", ""},
                                                                       {"a", bytes_feature({"the last counts"})}});
    const FieldValues numbers = values_of(message, "b");
    CHECK(numbers.numeric);
    CHECK(numbers.texts == std::vector<std::string>{"0", "-1", "9223372036854775807"});
    CHECK(numbers.numbers[1] == -1);
    CHECK(values_of(message, "f").numbers == std::vector<double>{1.5, -0.25});
    CHECK(values_of(message, "f").texts == std::vector<std::string>{"1.5", "-0.25"});
    CHECK(values_of(message, "a").texts == std::vector<std::string>{"the last counts"});
    CHECK(values_of(message, "none").texts.empty());
    const RecordFile file = tfrecord_file(message);
    ByteWindow bytes(file);
    std::vector<std::string> names;
    for (const FeaturePlace& place : find_features(bytes, 0, bytes.size(), "it")) names.push_back(place.name);
    CHECK(names == std::vector<std::string>{"a", "b", "f", "none"});
  }
}

TEST_CASE("what is no Example is refused by name") {
  CHECK(holds(example_refusal(message_field(1, "") + message_field(2, "abc")), "SequenceExample"));
  CHECK(holds(example_refusal("\x0A\x7F"), "a length in it reaches beyond it"));
  CHECK(holds(example_refusal("\x0A"), "ends within a number"));
  CHECK(holds(example_refusal("\x08\x01"), "not a tf.train.Example"));
  CHECK(holds(example_refusal("\x0B"), "unknown kind"));
  CHECK(holds(example_refusal(std::string(11, '\xFF')), "more than 64 bits"));
  CHECK(holds(example_refusal(example({{std::string(1025, 'n'), ""}})), "longer than 1 KiB"));
  CHECK(holds(example_refusal(example({{"a", bytes_feature({std::string(1 << 20, 'x')})}})), "more than 1 MiB"));
}

TEST_CASE("the place of a picture in an Example is found without reading it") {
  const std::string picture(100'000, 'p');
  const std::string message = example(
      {{"image", bytes_feature({picture})}, {"two", bytes_feature({"a", "b"})}, {"n", int64_feature({1})}, {"", ""}});
  const RecordFile file = tfrecord_file(message);
  ByteWindow bytes(file);
  const auto features = find_features(bytes, 0, bytes.size(), "it");
  REQUIRE(features.size() == 4);
  const ByteRange range = byte_string(bytes, features[1], "it");
  CHECK(message.substr(static_cast<size_t>(range.offset), static_cast<size_t>(range.size)) == picture);
  for (const auto& [place, words] : {std::pair{3, "several"}, {2, "numbers"}, {0, "nothing"}})
    CHECK(holds(error_of<DataError>([&] { byte_string(bytes, features[static_cast<size_t>(place)], "it"); }), words));
}

TEST_CASE("20,000 random damages to an Example end in a sentence or are read") {
  const unsigned seed = std::random_device{}();
  std::cout << "example damage seed " << seed << "\n";
  std::mt19937 random(seed);
  const std::string message = example({{"a", bytes_feature({"text", "more"})},
                                       {"b", int64_feature({1, 2, 300})},
                                       {"c", float_feature({1, 2, 3})},
                                       {"d", int64_feature({5, 6}, false)}});
  for (int i = 0; i < 20'000; ++i) {
    const RecordFile file = tfrecord_file(damaged(message, random));
    ByteWindow bytes(file);
    try {
      for (const FeaturePlace& place : find_features(bytes, 0, bytes.size(), "it")) read_feature(bytes, place, "it");
    } catch (const DataError&) {
    }
  }
}

TEST_CASE("fields of JSON objects are read as texts or numbers") {
  const std::string text = R"({"n": 3, "big": 9007199254740993, "t": "cat", "l": [1, 0, null, true], "s": ["a", "b"],
                               "o": {}, "m": [1, "a"], "x": 0.5, "e": []})";
  CHECK(json_field(text, "n", "it").texts == std::vector<std::string>{"3"});
  CHECK(json_field(text, "big", "it").texts == std::vector<std::string>{"9007199254740993"});
  CHECK(json_field(text, "t", "it").texts == std::vector<std::string>{"cat"});
  CHECK_FALSE(json_field(text, "t", "it").numeric);
  const FieldValues list = json_field(text, "l", "it");
  CHECK(list.numeric);
  CHECK(list.numbers[0] == 1);
  CHECK(list.numbers[2] != list.numbers[2]);
  CHECK(list.numbers[3] == 1);
  CHECK(json_field(text, "s", "it").texts == std::vector<std::string>{"a", "b"});
  CHECK(json_field(text, "x", "it").numbers == std::vector<double>{0.5});
  CHECK(json_field(text, "e", "it").texts.empty());
  const auto refused = [&](const std::string& json, const std::string& field) {
    return error_of<DataError>([&] { json_field(json, field, "it"); });
  };
  CHECK(holds(refused(text, "none"), "no field 'none'"));
  CHECK(holds(refused(text, "none"), "big"));
  CHECK(holds(refused(text, "o"), "neither texts nor numbers"));
  CHECK(holds(refused(text, "m"), "mixes"));
  CHECK(holds(refused("[1]", "a"), "not a JSON object"));
  CHECK(holds(refused("{", "a"), "is not JSON (byte"));
}
