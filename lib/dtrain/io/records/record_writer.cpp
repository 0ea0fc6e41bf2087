#include "dtrain/io/records/record_writer.hpp"

#include <cstdio>
#include <cstring>

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

void append_varint(Bytes& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>((value & 0x7F) | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

// A protobuf field that holds bytes, a text or a message.
void append_field(Bytes& out, int number, std::span<const std::byte> content) {
  constexpr int kOfBytes = 2;
  append_varint(out, static_cast<uint64_t>(number << 3 | kOfBytes));
  append_varint(out, content.size());
  append_bytes(out, content);
}

Bytes protobuf_field(int number, std::span<const std::byte> content) {
  Bytes out;
  append_field(out, number, content);
  return out;
}

// Numbers of a Feature's kinds, each a message whose field 1 is the list.
enum ListField : int { kBytesList = 1, kFloatList = 2, kInt64List = 3 };

constexpr size_t kTarBlock = 512;

}  // namespace

void append_tfrecord(std::span<const std::byte> data, std::vector<std::byte>& file) {
  const auto length = static_cast<uint64_t>(data.size());
  append_value(file, length);
  append_value(file, masked_crc(crc32c(std::as_bytes(std::span(&length, 1)))));
  append_bytes(file, data);
  append_value(file, masked_crc(crc32c(data)));
}

void ExampleWriter::add(const std::string& name, const std::vector<std::byte>& feature) {
  Bytes entry = protobuf_field(1, std::as_bytes(std::span(name)));
  append_field(entry, 2, feature);
  append_field(features_, 1, entry);
}

void ExampleWriter::add_bytes(const std::string& name, std::span<const std::byte> value) {
  add(name, protobuf_field(kBytesList, protobuf_field(1, value)));
}

void ExampleWriter::add_text(const std::string& name, const std::string& value) {
  add_bytes(name, std::as_bytes(std::span(value)));
}

void ExampleWriter::add_number(const std::string& name, int64_t value) {
  Bytes packed;
  append_varint(packed, static_cast<uint64_t>(value));
  add(name, protobuf_field(kInt64List, protobuf_field(1, packed)));
}

void ExampleWriter::add_floats(const std::string& name, std::span<const float> values) {
  add(name, protobuf_field(kFloatList, protobuf_field(1, std::as_bytes(values))));
}

std::vector<std::byte> ExampleWriter::message() const { return protobuf_field(1, features_); }

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
