#pragma once
// What the tests of record files share.
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/records/record_file.hpp"
#include "dtrain/io/records/tar.hpp"
#include "dtrain/io/records/tfrecord.hpp"
#include "support/records.hpp"

namespace dtrain::test {

inline constexpr int64_t kMuch = int64_t{1} << 30;

inline std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string random_text(std::mt19937& random, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() & 0xFF);
  return text;
}

/// One random damage: a bit, a byte, a block of zeros, a cut, bytes put in or taken out.
inline std::string damaged(std::string text, std::mt19937& random) {
  const size_t at = random() % text.size();
  switch (random() % 6) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
      break;
    case 1:
      text[at] = static_cast<char>(text[at] + 1 + static_cast<int>(random() % 255));
      break;
    case 2:
      for (size_t i = at; i < text.size() && i < at + 1 + random() % 600; ++i) text[i] = '\0';
      break;
    case 3:
      text.resize(at);
      break;
    case 4:
      text.insert(at, random_text(random, 1 + random() % 600));
      break;
    default:
      text.erase(at, 1 + random() % 600);
      break;
  }
  return text;
}

inline std::vector<TfRecordPlace> all_tfrecords(const RecordFile& file) {
  ByteWindow bytes(file);
  TfRecordWalk walk(bytes);
  std::vector<TfRecordPlace> places;
  while (const auto place = walk.next()) places.push_back(*place);
  return places;
}

inline std::vector<TarMember> all_members(const RecordFile& file) {
  ByteWindow bytes(file);
  TarWalk walk(bytes);
  std::vector<TarMember> members;
  while (const auto member = walk.next()) members.push_back(*member);
  return members;
}

}  // namespace dtrain::test
