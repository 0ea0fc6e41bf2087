#include "dtrain/io/records/tfrecord.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

namespace {

constexpr int64_t kHeader = 12;  // length and its checksum
constexpr int64_t kFooter = 4;   // checksum of the data
constexpr uint64_t kMaxRecord = uint64_t{1} << 30;

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

bool has_good_length(std::span<const std::byte> header) {
  return little_endian(header.subspan(8, 4)) == masked_crc(crc32c(header.first(8)));
}

[[noreturn]] void fail(const std::string& path, int64_t number, int64_t offset, const std::string& what) {
  throw DataError(tfrecord_name(path, number, offset) + ": " + what);
}

}  // namespace

uint32_t masked_crc(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8U; }

std::string tfrecord_name(const std::string& path, int64_t number, int64_t offset) {
  return fmt::format("{}: record {} at byte {}", path, number, with_commas(offset));
}

std::optional<TfRecordPlace> TfRecordWalk::next() {
  const int64_t left = bytes_.size() - offset_;
  if (left == 0) return std::nullopt;
  const auto refuse = [&](const std::string& what) { fail(bytes_.path(), number_, offset_, what); };
  if (left < kHeader) refuse("the file ends within the length of a record; it was cut short, fetch it again");
  const auto header = bytes_.at(offset_, kHeader);
  if (!has_good_length(header))
    refuse(number_ == 0 ? "the length has a wrong checksum: damaged, or not a TFRecord file; fetch or make it again"
                        : "the length has a wrong checksum: the file is damaged, fetch it again");
  const uint64_t size = little_endian(header.first(8));
  if (size > kMaxRecord)
    refuse(fmt::format("its length of {} bytes is more than the {} that are read", size,
                       with_commas(static_cast<int64_t>(kMaxRecord))));
  TfRecordPlace place{number_, offset_, static_cast<int64_t>(size)};
  if (place.size > left - kHeader - kFooter)
    refuse("its " + with_commas(place.size) +
           " bytes reach beyond the end of the file; it was cut short, fetch it again");
  ++number_;
  offset_ = place.end();
  return place;
}

uint32_t TfRecordWalk::told_checksum(const TfRecordPlace& place) {
  return static_cast<uint32_t>(little_endian(bytes_.at(place.end() - kFooter, kFooter)));
}

std::vector<std::byte> read_tfrecord(const RecordFile& file, int64_t number, int64_t offset, int64_t size) {
  std::vector<std::byte> frame(static_cast<size_t>(kHeader + size + kFooter));
  file.read(offset, frame);
  const std::span<const std::byte> bytes = frame;
  if (!has_good_length(bytes.first(kHeader)) || little_endian(bytes.first(8)) != static_cast<uint64_t>(size))
    fail(file.path(), number, offset, "the length has changed since the file was opened");
  const auto data = bytes.subspan(kHeader, static_cast<size_t>(size));
  if (little_endian(bytes.last(kFooter)) != masked_crc(crc32c(data)))
    fail(file.path(), number, offset, "the data have a wrong checksum: the record is damaged; fetch the file again");
  frame.resize(static_cast<size_t>(kHeader + size));
  frame.erase(frame.begin(), frame.begin() + kHeader);
  return frame;
}

RecordFile open_tfrecord_file(const std::string& path, int64_t max_decompressed) {
  RecordFile plain(path);
  std::vector<std::byte> start(static_cast<size_t>(std::min<int64_t>(kHeader, plain.size())));
  plain.read(0, start);
  // The length of a plain record may look like the start of a compressed file; its checksum does not.
  if (start.size() == kHeader && has_good_length(start)) return plain;
  const Compression compression = compression_of(start);
  if (compression == Compression::none) return plain;
  return {path, decompressed(plain, compression, max_decompressed)};
}

}  // namespace dtrain
