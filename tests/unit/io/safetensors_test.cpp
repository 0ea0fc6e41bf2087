#include "dtrain/io/files/safetensors.hpp"

#include <cstring>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;
using dtrain::test::TempFolder;
using dtrain::test::write_plainly;

namespace {

const std::vector<float> kWeight = {1.5f, -2.0f, 0.25f, 1e-30f, 3.0f, 4.0f};
const std::vector<int64_t> kCount = {420};
const std::vector<uint8_t> kFlags = {1, 0, 1};

template <typename T>
std::span<const std::byte> values_as_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<TensorBytes> tensors() {
  return {{"model.weight", "F32", {2, 3}, values_as_bytes(kWeight)},
          {"model.flags", "BOOL", {3}, values_as_bytes(kFlags)},
          {"model.num_batches_tracked", "I64", {}, values_as_bytes(kCount)},
          {"model.empty", "F32", {0, 4}, {}}};
}

/// Length bytes, header and `data` bytes of zero, as another program would write them.
void write_foreign(const std::string& path, const std::string& header, size_t data) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  write_plainly(path, text + header + std::string(data, '\0'));
}

/// What is said against the file. verify(), which keeps nothing of it, says what read() with its checksums says.
std::string tensors_refusal(const std::string& path, bool require_checksums = false) {
  const auto read = [&](bool require) { return error_of<DataError>([&] { SafetensorsFile::read(path, require); }); };
  const std::string verified = error_of<DataError>([&] { SafetensorsFile::verify(path); });
  if (verified != read(true)) FAIL("verify: " << verified << ", read: " << read(true));
  return read(require_checksums);
}

}  // namespace

TEST_CASE("tensors and metadata come back as they were written, in their order") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  const std::map<std::string, std::string> metadata = {
      {"state", "{\"epoch\":3,\"name\":\"größe\"}"}, {"with \"quotes\"", "line\nbreak\t\\"}, {"empty", ""}};
  write_safetensors(path, tensors(), metadata);
  const SafetensorsFile file = SafetensorsFile::read(path, true);
  CHECK(file.metadata() == metadata);
  CHECK(file.has_checksums());
  REQUIRE(file.entries().size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    const TensorBytes expected = tensors()[i];
    const TensorEntry& entry = file.entries()[i];
    CHECK(entry.name == expected.name);
    CHECK(entry.dtype == expected.dtype);
    CHECK(entry.shape == expected.shape);
    const auto bytes = file.bytes(entry);
    REQUIRE(bytes.size() == expected.bytes.size());
    CHECK(std::equal(bytes.begin(), bytes.end(), expected.bytes.begin()));
    CHECK(file.find(expected.name) == &entry);
  }
  CHECK(file.find("model") == nullptr);
}

TEST_CASE("the data part and each tensor are aligned, metadata stand first") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  for (size_t length = 0; length < 9; ++length) {
    write_safetensors(path, tensors(), {{"pad", std::string(length, 'x')}});
    const std::string text = read_text(path);
    uint64_t header = 0;
    std::memcpy(&header, text.data(), 8);
    CHECK(header % 8 == 0);
    CHECK(text.substr(8).starts_with("{\"__metadata__\":{"));
    const SafetensorsFile file = SafetensorsFile::read(path);
    for (const TensorEntry& entry : file.entries()) CHECK(entry.begin % bytes_per_element(entry.dtype) == 0);
  }
}

TEST_CASE("the same tensors give the same file") {
  const TempFolder folder;
  write_safetensors(folder.file("a"), tensors(), {{"b", "1"}, {"a", "2"}});
  write_safetensors(folder.file("b"), tensors(), {{"a", "2"}, {"b", "1"}});
  CHECK(read_text(folder.file("a")) == read_text(folder.file("b")));
}

TEST_CASE("the worked example of docs/checkpoint_format.md is what is written") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  const std::vector<float> bias = {1, -1};
  write_safetensors(path,
                    {{"model.fc.bias", "F32", {2}, values_as_bytes(bias)},
                     {"model.bn.num_batches_tracked", "I64", {}, values_as_bytes(kCount)}},
                    {{"state", "{\"epoch\":3}"}});
  const std::string header =
      R"({"__metadata__":{"crc32c.header":"13ade65d","crc32c.model.bn.num_batches_tracked":"fc37efd2",)"
      R"("crc32c.model.fc.bias":"7e7e6019","state":"{\"epoch\":3}"},)"
      R"("model.fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
      R"("model.bn.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}       )";
  const std::string length("\x30\x01\0\0\0\0\0\0", 8);
  const std::string data("\xA4\x01\0\0\0\0\0\0\0\0\x80\x3F\0\0\x80\xBF", 16);
  CHECK(read_text(path) == length + header + data);
}

TEST_CASE("every single flipped bit of a checksummed file is noticed") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, tensors(), {{"state", "{\"epoch\":3}"}});
  const std::string whole = read_text(path);
  int missed = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write_plainly(path, damaged);
    missed += tensors_refusal(path).find(path) != 0;
  }
  CHECK(missed == 0);
}

TEST_CASE("a file cut anywhere or with something behind it is refused") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, tensors(), {{"state", "{}"}});
  const std::string whole = read_text(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    INFO(length);
    write_plainly(path, whole.substr(0, length));
    CHECK_FALSE(tensors_refusal(path).empty());
    CHECK_THROWS_AS(SafetensorsFile::read_header(path), DataError);
  }
  write_plainly(path, whole + '\0');
  CHECK(tensors_refusal(path).find("1 bytes after the last tensor") != std::string::npos);
}

TEST_CASE("a damaged tensor is named, and so is a damaged header") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, tensors(), {{"state", "old"}});
  std::string text = read_text(path);
  const SafetensorsFile file = SafetensorsFile::read(path);
  const TensorEntry* weight = file.find("model.weight");
  const size_t data = text.size() - (8 + 24 + 3);
  std::string damaged = text;
  damaged[data + static_cast<size_t>(weight->begin) + 5] ^= 1;
  write_plainly(path, damaged);
  CHECK(tensors_refusal(path).find("tensor 'model.weight' does not match its checksum") != std::string::npos);
  CHECK_NOTHROW(SafetensorsFile::read_header(path));
  damaged = text;
  damaged.replace(damaged.find("old"), 3, "new");
  write_plainly(path, damaged);
  CHECK(tensors_refusal(path).find("'crc32c.header'") != std::string::npos);
  CHECK_THROWS_AS(SafetensorsFile::read_header(path), DataError);
}

TEST_CASE("a large file is verified piece by piece, its last byte too") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  const std::vector<float> large(1'000'003, 0.5f);
  write_safetensors(
      path, {{"w", "F32", {1'000'003}, values_as_bytes(large)}, {"b", "BOOL", {3}, values_as_bytes(kFlags)}}, {});
  CHECK(tensors_refusal(path, true).empty());
  std::string text = read_text(path);
  text[text.size() - 4] ^= 1;  // of the large one
  write_plainly(path, text);
  CHECK(tensors_refusal(path).find("tensor 'w' does not match its checksum") != std::string::npos);
}

TEST_CASE("the header alone tells names, shapes and metadata") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, tensors(), {{"state", "{}"}});
  const SafetensorsFile header = SafetensorsFile::read_header(path);
  CHECK(header.entries().size() == 4);
  CHECK(header.metadata().at("state") == "{}");
  CHECK(header.find("model.weight")->shape == std::vector<int64_t>{2, 3});
  CHECK_THROWS_AS(header.bytes(*header.find("model.weight")), InternalError);
  CHECK_THROWS_AS(SafetensorsFile::read_header(folder.file("none")), MissingError);
  CHECK_THROWS_AS(SafetensorsFile::read(folder.file("none")), MissingError);
}

TEST_CASE("a file of another program is read without checksums unless they are required") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_foreign(path,
                "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
                " \"a\":{\"data_offsets\":[0,4],\"shape\":[1,1],\"dtype\":\"F32\"}}  ",
                6);
  const SafetensorsFile file = SafetensorsFile::read(path);
  CHECK(file.entries().front().name == "b");
  CHECK(file.find("a")->begin == 0);
  CHECK_FALSE(file.has_checksums());
  CHECK(tensors_refusal(path, true).find("no checksums") != std::string::npos);
  write_foreign(path, "{}", 0);
  CHECK(SafetensorsFile::read(path).entries().empty());
}

TEST_CASE("headers that break the format are refused with a reason") {
  struct Case {
    std::string header;
    size_t data;
    const char* reason;
  };
  const std::string good = "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]";
  const Case cases[] = {
      {"", 0, "does not begin with '{'"},
      {"[]", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"{", 0, "not valid JSON"},
      {"{}x", 0, "not valid JSON"},
      {"{\"a\":{" + good + "}", 4, "not valid JSON"},
      {"{\"a\xFF\":{" + good + "}}", 4, "not valid JSON"},
      {"{\"a\":{" + good + "},\"a\":{" + good + "}}", 4, "overlaps"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_"
       "offsets\":[0,0]}}",
       0, "'a' twice"},
      {"{\"a\":{\"dtype\":\"F16\"," + good + "}}", 4, "'dtype' twice"},
      {"{\"a\":{" + good + ",\"x\":1}}", 4, "unknown field 'x'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no 'dtype', 'shape' or 'data_offsets'"},
      {"{\"a\":{}}", 0, "no 'dtype'"},
      {"{\"a\":7}", 0, "describes no tensor"},
      {"{\"a\":[]}", 0, "describes no tensor"},
      {"{\"a\":null}", 0, "describes no tensor"},
      {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "element type 'F33'"},
      {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'dtype' of the wrong kind"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":\"1\",\"data_offsets\":[0,4]}}", 4, "'shape' of the wrong kind"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]}}", 4, "wrong kind"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "wrong kind"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "wrong kind"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,4]}}", 4, "too large"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4, "wrong kind"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, "does not match"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "does not match"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "not an ascending pair of numbers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", 4, "not an ascending pair"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "too many numbers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "after a hole"},
      {"{\"a\":{" + good + "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6, "overlaps"},
      {"{\"a\":{" + good + "}}", 3, "beyond the end"},
      {"{\"a\":{" + good + "}}", 5, "after the last tensor"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a' that is not a string"},
      {"{\"__metadata__\":{\"a\":{}}}", 0, "metadata 'a' that is not a string"},
      {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "metadata 'a' twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "'__metadata__' twice"},
      {"{\"__metadata__\":\"x\"}", 0, "'__metadata__' that describes no tensor"},
      {"{\"__metadata__\":{\"crc32c.a\":\"00000000\"},\"a\":{" + good + "}}", 4, "'crc32c.header'"},
      {"{\"__metadata__\":{\"crc32c.header\":\"x\"},\"a\":{" + good + "}}", 4, "'crc32c.header'"},
      {"{\"a\":" + std::string(1'000'000, '['), 0, "describes no tensor"},
      {"{\"a\":{\"shape\":[" + std::string(1'000'000, '1') + "]}}", 0, "not valid JSON"},
  };
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  for (const Case& one : cases) {
    write_foreign(path, one.header, one.data);
    const std::string sentence = tensors_refusal(path);
    INFO(one.header.substr(0, 200) << " → " << sentence);
    CHECK(sentence.find(path) == 0);
    CHECK(sentence.find(one.reason) != std::string::npos);
    CHECK(sentence.size() < 500);
  }
}

TEST_CASE("a length that does not fit is refused before memory is taken") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  for (const std::string& length : {std::string(8, '\xFF'), std::string("\x01\xE1\xF5\x05\0\0\0\0", 8),
                                    std::string(7, '\0') + "\x80", std::string("\x03\0\0\0\0\0\0\0", 8)}) {
    write_plainly(path, length + "{}");
    CHECK(tensors_refusal(path).find("the header it announces does not fit") != std::string::npos);
    CHECK_THROWS_AS(SafetensorsFile::read_header(path), DataError);
  }
  write_plainly(path, "PK\x03\x04 and so on");
  CHECK(tensors_refusal(path).find("scripts/convert_weights") != std::string::npos);
}

TEST_CASE("what must not be written is refused, and an older file stays") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, tensors(), {});
  const std::string old = read_text(path);
  const auto bytes = values_as_bytes(kFlags);
  CHECK_THROWS_AS(write_safetensors(path, {{"a", "U8", {3}, bytes}, {"a", "U8", {3}, bytes}}, {}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {{"a", "U8", {4}, bytes}}, {}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {{"a", "U9", {3}, bytes}}, {}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {{"a", "U8", {-3}, bytes}}, {}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {{"header", "U8", {3}, bytes}}, {}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {{"__metadata__", "U8", {3}, bytes}}, {}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {}, {{"crc32c.x", "1"}}), InternalError);
  CHECK_THROWS_AS(write_safetensors(path, {}, {{"config", "\xFF"}}), DataError);
  CHECK(read_text(path) == old);
  CHECK_THROWS_AS(write_safetensors(folder.file("none/a"), tensors(), {}), MissingError);
}

TEST_CASE("text that looks like the checksum's field does not mislead the reader") {
  const TempFolder folder;
  const std::string path = folder.file("a.safetensors");
  const std::string decoy = "\"crc32c.header\":\"12345678\"";
  write_safetensors(path, {{decoy, "U8", {3}, values_as_bytes(kFlags)}}, {{"aaa", decoy}, {decoy, decoy}});
  const SafetensorsFile file = SafetensorsFile::read(path, true);
  CHECK(file.metadata().at("aaa") == decoy);
  CHECK(file.find(decoy) != nullptr);
}

TEST_CASE("element sizes are those of the format") {
  const std::pair<const char*, int64_t> sizes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                                   {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};
  for (const auto& [dtype, bytes] : sizes) CHECK(bytes_per_element(dtype) == bytes);
  CHECK(bytes_per_element("f32") == 0);
  CHECK(bytes_per_element("") == 0);
}
