#include "dtrain/io/records/record_writer.hpp"

#include <cstdio>
#include <cstring>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/io/records/tfrecord.hpp"

namespace dtrain {

namespace {

using Bytes = std::vector<std::byte>;

void append_bytes(Bytes& out, std::span<const std::byte> more) { out.insert(out.end(), more.begin(), more.end()); }

template <typename Value>
void append_value(Bytes& out, Value value) {
  append_bytes(out, std::as_bytes(std::span(&value, 1)));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Numbers of a Feature's kinds, each a message whose field 1 is the list.
enum ListField : uint32_t { kBytesList = 1, kFloatList = 2, kInt64List = 3 };

constexpr size_t kTarBlock = 512;

}  // namespace

void append_tfrecord(std::span<const std::byte> data, std::vector<std::byte>& file) {
  const auto length = static_cast<uint64_t>(data.size());
  append_value(file, length);
  append_value(file, masked_crc(crc32c(std::as_bytes(std::span(&length, 1)))));
  append_bytes(file, data);
  append_value(file, masked_crc(crc32c(data)));
}

// An entry of the map: its name and the Feature, a list of one kind.
void ExampleWriter::add(const std::string& name, uint32_t kind, const ProtobufMessage& list) {
  features_.message(1, ProtobufMessage().text(1, name).message(2, ProtobufMessage().message(kind, list)));
}

void ExampleWriter::add_bytes(const std::string& name, std::span<const std::byte> value) {
  add(name, kBytesList, ProtobufMessage().text(1, text_of(value)));
}

void ExampleWriter::add_text(const std::string& name, const std::string& value) {
  add(name, kBytesList, ProtobufMessage().text(1, value));
}

void ExampleWriter::add_number(const std::string& name, int64_t value) {
  add(name, kInt64List, ProtobufMessage().text(1, ProtobufMessage().packed(value).bytes()));
}

void ExampleWriter::add_floats(const std::string& name, std::span<const float> values) {
  add(name, kFloatList, ProtobufMessage().text(1, text_of(std::as_bytes(values))));
}

std::vector<std::byte> ExampleWriter::message() const {
  const ProtobufMessage whole = ProtobufMessage().message(1, features_);
  const auto bytes = std::as_bytes(std::span(whole.bytes()));
  return {bytes.begin(), bytes.end()};
}

void append_tar_member(const std::string& name, std::span<const std::byte> content, std::vector<std::byte>& archive) {
  check(!name.empty() && name.size() <= 100, "a name fits a tar header");
  char header[kTarBlock] = {};
  // NOLINTBEGIN(bugprone-not-null-terminated-result): fields of fixed width, in an array of zeros
  std::memcpy(header, name.data(), name.size());
  std::memcpy(header + 100, "0000644\0000000000\0000000000", 23);
  std::snprintf(header + 124, 12, "%011zo", content.size());
  std::memcpy(header + 136, "00000000000", 11);
  std::memset(header + 148, ' ', 8);
  header[156] = '0';
  std::memcpy(header + 257, "ustar\00000", 8);
  // NOLINTEND(bugprone-not-null-terminated-result)
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header + 148, 8, "%06o", sum);
  append_bytes(archive, std::as_bytes(std::span(header)));
  append_bytes(archive, content);
  archive.resize((archive.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
}

void append_tar_end(std::vector<std::byte>& archive) { archive.resize(archive.size() + 2 * kTarBlock); }

}  // namespace dtrain
