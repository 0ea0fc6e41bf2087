#include "support/records.hpp"

#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace dtrain::test {

namespace {

std::string little_endian(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

// CRC32C bit by bit: a different method from the one under test.
std::string masked_crc(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82F63B78U & (0U - (crc & 1)));
  }
  crc = ~crc;
  return little_endian(static_cast<uint32_t>((crc >> 15 | crc << 17) + 0xA282EAD8U), 4);
}

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}

std::string packed_by(const std::string& text, int window_bits) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::logic_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string tar_header(const std::string& name, size_t size, char type) {
  std::string header(512, '\0');
  std::memcpy(header.data(), name.data(), name.size() < 100 ? name.size() : 100);
  std::memcpy(header.data() + 100, "0000644\0000000000\0000000000\0", 24);
  std::snprintf(header.data() + 124, 12, "%011zo", size);
  std::memcpy(header.data() + 136, "00000000000", 11);
  header[156] = type;
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  seal_tar_header(header, 0);
  return header;
}

std::string padded(const std::string& content) {
  return content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string pax_line(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

}  // namespace

std::string tfrecord(const std::string& data) {
  const std::string length = little_endian(data.size(), 8);
  return length + masked_crc(length) + data + masked_crc(data);
}

std::string message_field(int number, const std::string& bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string bytes_feature(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += message_field(1, value);
  return message_field(1, list);
}

std::string int64_feature(const std::vector<int64_t>& values, bool packed) {
  std::string list;
  for (const int64_t value : values) list += (packed ? "" : varint(1 << 3)) + varint(static_cast<uint64_t>(value));
  return message_field(3, packed ? message_field(1, list) : list);
}

std::string float_feature(const std::vector<float>& values, bool packed) {
  std::string list;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    list += (packed ? "" : varint(1 << 3 | 5)) + little_endian(bits, 4);
  }
  return message_field(2, packed ? message_field(1, list) : list);
}

std::string example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string map;
  for (const auto& [name, feature] : features)
    map += message_field(1, message_field(1, name) + message_field(2, feature));
  return message_field(1, map);
}

std::string tar_member(const std::string& name, const std::string& content, char type) {
  return tar_header(name, content.size(), type) + padded(content);
}

std::string gnu_long_member(const std::string& name, const std::string& content) {
  return tar_member("././@LongLink", name + '\0', 'L') + tar_member(name, content);
}

std::string pax_member(const std::string& name, const std::string& content) {
  const std::string notes = pax_line("mtime", "1.5") + pax_line("path", name) +
                            pax_line("size", std::to_string(content.size())) + pax_line("comment", "a=b\nc");
  return tar_member("PaxHeaders/x", notes, 'x') + tar_header("short", 0, '0') + padded(content);
}

std::string tar_end() { return std::string(1024, '\0'); }

void seal_tar_header(std::string& archive, size_t at) {
  std::memset(archive.data() + at + 148, ' ', 8);
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[at + i]);
  std::snprintf(archive.data() + at + 148, 8, "%06o", sum);
  archive[at + 155] = ' ';
}

std::string gzip(const std::string& text) { return packed_by(text, 15 + 16); }
std::string zlib(const std::string& text) { return packed_by(text, 15); }

}  // namespace dtrain::test
