#include "dtrain/io/packed/packed_shard.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/packed/packed_codec.hpp"
#include "dtrain/io/packed/packed_layout.hpp"

namespace dtrain {

namespace {

template <typename Value>
Value load(std::span<const std::byte> bytes, int64_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_at(std::span<const std::byte> bytes, int64_t offset, int64_t count) {
  return {reinterpret_cast<const char*>(bytes.data()) + offset, static_cast<size_t>(count)};
}

// The labels begin where the row after the last one would be.
int64_t row_at(int64_t record) { return PackedShard::kHeaderBytes + record * PackedShard::kRowBytes; }

ImageHeader header_of(const PackedEntry& entry) { return {entry.height, entry.width, entry.channels, entry.bits}; }

}  // namespace

bool is_packed_shard(const std::string& path) {
  const std::vector<std::byte> start = read_file_start(path, static_cast<int64_t>(PackedShard::kMagic.size()));
  return text_at(start, 0, static_cast<int64_t>(start.size())) == PackedShard::kMagic;
}

int64_t PackedEntry::bytes() const { return packed_aligned(picture_bytes) + packed_aligned(mask_bytes); }

PackedShard::PackedShard(MappedFile file) : file_(std::move(file)) {
  read_header();
  check_index();
}

void PackedShard::refuse(const std::string& what) const { throw DataError(path() + ": " + what); }

bool PackedShard::all_zero(int64_t offset, int64_t count) const {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  file_.read(offset, bytes);
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

void PackedShard::read_header() {
  std::vector<std::byte> header(static_cast<size_t>(std::min(kHeaderBytes, file_.size())));
  file_.read(0, header);
  const std::span<const std::byte> bytes = header;
  const auto has = static_cast<int64_t>(kMagic.size());
  if (file_.size() < has || text_at(bytes, 0, has) != kMagic)
    refuse("its first bytes are not those of a packed shard, or they are damaged; copy it again, or pack again");
  if (file_.size() < kHeaderBytes)
    refuse("it ends inside its header, after " + count_of(file_.size(), "byte") +
           "; it was cut, copy it again, or pack again");
  checksum_ = load<uint32_t>(bytes, layout::kHeaderChecksum);
  const bool whole = crc32c(bytes.first(layout::kHeaderChecksum)) == checksum_;
  const auto version = load<uint32_t>(bytes, layout::kVersion);
  if (whole && version != layout::kThisVersion)
    refuse(
        fmt::format("it is of version {} of the format, and this build reads version {}; pack again, or read it with "
                    "the build that packed it",
                    version, layout::kThisVersion));
  if (!whole) refuse("the header at byte 0 has a wrong checksum; copy it again, or pack again");
  const auto codec = load<uint32_t>(bytes, layout::kCodec);
  records_ = load<uint32_t>(bytes, layout::kRecords);
  info_.labels = load<uint32_t>(bytes, layout::kLabels);
  info_.number = load<uint32_t>(bytes, layout::kNumber);
  info_.count = load<uint32_t>(bytes, layout::kCount);
  index_bytes_ = load<int64_t>(bytes, layout::kIndexBytes);
  const auto promised = load<int64_t>(bytes, layout::kFileBytes);
  std::memcpy(info_.job.data(), bytes.data() + layout::kJob, info_.job.size());
  info_.codec = static_cast<PackedCodec>(codec);
  if (promised != file_.size())
    refuse("it has " + with_commas(file_.size()) + " bytes, and its header promises " + with_commas(promised) +
           (promised > file_.size() ? "; it was cut" : "; something follows it") + ": copy it again, or pack again");
  const int64_t room = file_.size() - kHeaderBytes;
  const bool good = codec <= static_cast<uint32_t>(PackedCodec::deflate) && records_ > 0 &&
                    info_.number < info_.count && index_bytes_ >= 0 && index_bytes_ <= room &&
                    index_bytes_ % kAlignment == 0 && records_ <= index_bytes_ / kRowBytes &&
                    info_.labels <= index_bytes_ / 4 && records_ * info_.labels <= index_bytes_ / 4 &&
                    all_zero(layout::kHeaderEnd, layout::kHeaderChecksum - layout::kHeaderEnd);
  if (!good) refuse("the header at byte 0 has impossible values");
}

void PackedShard::check_index() const {
  file_.prefetch(kHeaderBytes, index_bytes_);
  std::array<std::byte, sizeof(uint32_t)> told{};
  file_.read(layout::kIndexChecksum, told);
  if (file_.checksum(file_.bytes().subspan(kHeaderBytes, static_cast<size_t>(index_bytes_))) != load<uint32_t>(told, 0))
    refuse("the index at byte " + std::to_string(kHeaderBytes) + " has a wrong checksum; copy it again, or pack again");
  const int64_t index_end = kHeaderBytes + index_bytes_;
  int64_t text = names_at();
  int64_t next = index_end;
  if (text > index_end) refuse("the index at byte " + std::to_string(kHeaderBytes) + " is too short for its records");
  for (int64_t i = 0; i < records_; ++i) {
    const Row row = row_of(i);
    const int64_t begin = names_at() + load<uint32_t>(row, layout::kText);
    const int64_t length = load<uint16_t>(row, layout::kPathBytes) + load<uint16_t>(row, layout::kGroupBytes);
    if (begin != text || length > index_end - text) refuse(row_name(i) + " has a name beyond the index");
    text += length;
    const PackedEntry found = entry(i);
    if (found.offset != next) refuse(row_name(i) + " does not follow the record before it");
    check_row(i, found);
    next += found.bytes();
  }
  if (packed_aligned(text) != index_end || !all_zero(text, index_end - text))
    refuse("the index at byte " + std::to_string(kHeaderBytes) + " is longer than its records");
  if (next != file_.size()) refuse("its records end at byte " + with_commas(next) + ", before the end of the file");
}

void PackedShard::check_row(int64_t record, const PackedEntry& found) const {
  const ImageLimits limits;
  const int64_t room = file_.size() - found.offset;
  const auto wrong = [&](const std::string& what) { refuse(row_name(record) + " " + what); };
  if (found.picture_bytes < 1 || packed_aligned(found.picture_bytes) > room ||
      packed_aligned(found.mask_bytes) > room - packed_aligned(found.picture_bytes))
    wrong("reaches beyond the end of the file");
  if (found.height < 1 || found.width < 1 || found.width > limits.max_pixels / found.height || found.channels < 1 ||
      found.channels > kMostPackedChannels || (found.bits != 8 && found.bits != 16))
    wrong("promises an impossible picture");
  if (found.part > PackedPart::test || found.class_index < -1 || found.path.empty() ||
      load<uint8_t>(row_of(record), layout::kRowZero) != 0)
    wrong("holds a meaningless value");
  const int64_t pixels = found.height * found.width;
  const bool raw = info_.codec == PackedCodec::raw;
  if (raw && (found.picture_bytes != pixels * found.channels * found.bits / 8 ||
              (found.mask_bytes != 0 && found.mask_bytes != pixels)))
    wrong("has another length than its picture");
  if (info_.codec == PackedCodec::jpeg && found.bits != 8) wrong("promises a JPEG of 16 bits");
}

PackedEntry PackedShard::entry(int64_t record) const {
  check(record >= 0 && record < records_, "a record that is asked for is in its shard");
  const Row row = row_of(record);
  PackedEntry entry;
  entry.offset = load<int64_t>(row, layout::kOffset);
  entry.picture_bytes = load<uint32_t>(row, layout::kPictureBytes);
  entry.mask_bytes = load<uint32_t>(row, layout::kMaskBytes);
  entry.checksum = load<uint32_t>(row, layout::kChecksum);
  entry.height = load<uint32_t>(row, layout::kHeight);
  entry.width = load<uint32_t>(row, layout::kWidth);
  entry.channels = load<uint8_t>(row, layout::kChannels);
  entry.bits = load<uint8_t>(row, layout::kBits);
  entry.part = static_cast<PackedPart>(load<uint8_t>(row, layout::kPart));
  entry.class_index = load<int32_t>(row, layout::kClass);
  const int64_t text = names_at() + load<uint32_t>(row, layout::kText);
  entry.path.resize(load<uint16_t>(row, layout::kPathBytes));
  entry.group.resize(load<uint16_t>(row, layout::kGroupBytes));
  // If the shard is overwritten while it is read, the row may have changed since the index was checked.
  const auto text_bytes = static_cast<int64_t>(entry.path.size() + entry.group.size());
  if (text > file_.size() || text_bytes > file_.size() - text)
    refuse(row_name(record) + " names a text beyond the file");
  file_.read(text, std::as_writable_bytes(std::span(entry.path)));
  file_.read(text + static_cast<int64_t>(entry.path.size()), std::as_writable_bytes(std::span(entry.group)));
  return entry;
}

std::vector<float> PackedShard::labels(int64_t record) const {
  check(record >= 0 && record < records_, "a record that is asked for is in its shard");
  std::vector<float> labels(static_cast<size_t>(info_.labels));
  file_.read(row_at(records_) + record * info_.labels * 4, std::as_writable_bytes(std::span(labels)));
  return labels;
}

PackedBytes PackedShard::read(int64_t record) const {
  const PackedEntry found = entry(record);
  // A file truncated within a page reads as zeros up to the end of the page.
  if (found.offset < kHeaderBytes + index_bytes_ || found.picture_bytes < 1 || found.height < 1 || found.width < 1 ||
      found.bytes() > file_.size() - found.offset)
    refuse("the index has changed since it was opened; replace files by rename, never by overwriting them");
  file_.prefetch(found.offset, found.bytes());
  const auto whole = file_.bytes().subspan(static_cast<size_t>(found.offset), static_cast<size_t>(found.bytes()));
  if (file_.checksum(whole) != found.checksum) throw DataError(name_of(record) + ": its bytes have a wrong checksum");
  return {
      whole.first(static_cast<size_t>(found.picture_bytes)),
      whole.subspan(static_cast<size_t>(packed_aligned(found.picture_bytes)), static_cast<size_t>(found.mask_bytes))};
}

Image PackedShard::picture(int64_t record, const PackedBytes& stored) const {
  return decoded(stored.picture, header_of(entry(record)), info_.codec, record);
}

// Raw samples are copied straight into the picture; compressed bytes are few, and are copied before they are decoded.
Image PackedShard::decoded(std::span<const std::byte> stored, const ImageHeader& header, PackedCodec codec,
                           int64_t record) const {
  const std::string name = name_of(record);
  if (codec != PackedCodec::raw) {
    std::vector<uint8_t> copy;
    file_.read(stored, copy);
    return decode_packed(std::as_bytes(std::span(copy)), header, codec, name);
  }
  Image image = raw_packed(stored.size(), header, name);
  if (header.bits == 16) {
    image.words.resize(stored.size() / 2);
    file_.read(stored.data() - file_.bytes().data(), std::as_writable_bytes(std::span(image.words)));
  } else {
    file_.read(stored, image.bytes);
  }
  return image;
}

Image PackedShard::mask(int64_t record, const PackedBytes& stored) const {
  const PackedEntry found = entry(record);
  return decoded(stored.mask, {found.height, found.width, 1, 8}, mask_codec(info_.codec), record);
}

PackedShard::Row PackedShard::row_of(int64_t record) const {
  Row row;
  file_.read(row_at(record), row);
  return row;
}

int64_t PackedShard::names_at() const { return row_at(records_) + records_ * info_.labels * 4; }

// The record's name in messages while its row has not been checked.
std::string PackedShard::row_name(int64_t record) const {
  return fmt::format("record {}, whose row is at byte {},", record, with_commas(row_at(record)));
}

std::string PackedShard::name_of(int64_t record) const {
  const PackedEntry found = entry(record);
  return fmt::format("{}: record {} ({}) at byte {}", path(), record, found.path, with_commas(found.offset));
}

}  // namespace dtrain
