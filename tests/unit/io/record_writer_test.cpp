#include "dtrain/io/records/record_writer.hpp"

#include "dtrain/io/records/tf_example.hpp"
#include "support/catch.hpp"
#include "unit/io/records.hpp"

using namespace dtrain;
using namespace dtrain::test;

TEST_CASE("what is written as TFRecord has the bytes that TensorFlow's frames have, and reads back") {
  std::vector<std::byte> file;
  std::string expected;
  for (const std::string& text : {std::string("abc"), std::string(), std::string(1000, 'x')}) {
    append_tfrecord(to_bytes(text), file);
    expected += tfrecord(text);
  }
  CHECK(to_text(file) == expected);
  const RecordFile records("a", file);
  CHECK(all_tfrecords(records).size() == 3);
}

TEST_CASE("an example that is written has the features that are read from it") {
  ExampleWriter writer;
  writer.add_number("label", 300);
  writer.add_bytes("picture", to_bytes(std::string(5000, 'p')));
  writer.add_text("name", "Zoë");
  writer.add_floats("flags", std::vector<float>{0, 1, 0.5F});
  const RecordFile record("a", writer.message());
  ByteWindow bytes(record);
  const std::vector<FeaturePlace> features = find_features(bytes, 0, record.size(), "a");
  REQUIRE(features.size() == 4);  // by name: flags, label, name, picture
  CHECK(read_feature(bytes, features[0], "a").numbers == std::vector<double>{0, 1, 0.5});
  CHECK(read_feature(bytes, features[1], "a").texts == std::vector<std::string>{"300"});
  CHECK(read_feature(bytes, features[2], "a").texts == std::vector<std::string>{"Zoë"});
  CHECK(byte_string(bytes, features[3], "a").size == 5000);
}

TEST_CASE("what is written as tar is read back member by member") {
  std::vector<std::byte> archive;
  append_tar_member("000000001.png", to_bytes(std::string(700, 'a')), archive);
  append_tar_member("000000001.cls", to_bytes("7"), archive);
  append_tar_end(archive);
  CHECK(archive.size() == 512 * 7);
  const RecordFile file("a", archive);
  const std::vector<TarMember> members = all_members(file);
  REQUIRE(members.size() == 2);
  CHECK(members[0].name == "000000001.png");
  CHECK(members[0].size == 700);
  CHECK(members[1].name == "000000001.cls");
}
