#include "dtrain/io/packed/packed_writer.hpp"

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
void store(std::vector<std::byte>& bytes, int64_t offset, int64_t value) {
  const auto own = static_cast<Value>(value);
  check(static_cast<int64_t>(own) == value, "a number fits its place in a packed shard");
  std::memcpy(bytes.data() + offset, &own, sizeof own);
}

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

void pad(std::vector<std::byte>& bytes) {
  bytes.resize(static_cast<size_t>(packed_aligned(static_cast<int64_t>(bytes.size()))));
}

void require_name(const std::string& path, const std::string& name, const char* what) {
  constexpr size_t kMost = UINT16_MAX;
  if (name.size() > kMost)
    throw DataError(path + ": " + what + " of " + with_commas(static_cast<int64_t>(name.size())) +
                    " bytes is too long for a packed shard; " + with_commas(kMost) + " is the most");
}

// The bytes of rows, labels and names. Sets the offsets in `records`.
std::vector<std::byte> index_of(std::vector<PackedRecord>& records, const PackedShardInfo& info) {
  const auto count = static_cast<int64_t>(records.size());
  std::vector<std::byte> index(static_cast<size_t>(count * PackedShard::kRowBytes));
  int64_t text = 0;
  for (int64_t i = 0; i < count; ++i) {
    const PackedRecord& record = records[static_cast<size_t>(i)];
    const int64_t row = i * PackedShard::kRowBytes;
    const PackedEntry& entry = record.entry;
    check(static_cast<int64_t>(record.labels.size()) == info.labels, "every record of a shard has as many labels");
    require_name(record.path, record.path, "a name");
    require_name(record.path, record.group, "a group");
    store<uint32_t>(index, row + layout::kPictureBytes, entry.picture_bytes);
    store<uint32_t>(index, row + layout::kMaskBytes, entry.mask_bytes);
    store<uint32_t>(index, row + layout::kChecksum, entry.checksum);
    store<uint32_t>(index, row + layout::kHeight, entry.height);
    store<uint32_t>(index, row + layout::kWidth, entry.width);
    store<uint8_t>(index, row + layout::kChannels, entry.channels);
    store<uint8_t>(index, row + layout::kBits, entry.bits);
    store<uint8_t>(index, row + layout::kPart, static_cast<int64_t>(entry.part));
    store<int32_t>(index, row + layout::kClass, entry.class_index);
    store<uint32_t>(index, row + layout::kText, text);
    store<uint16_t>(index, row + layout::kPathBytes, static_cast<int64_t>(record.path.size()));
    store<uint16_t>(index, row + layout::kGroupBytes, static_cast<int64_t>(record.group.size()));
    text += static_cast<int64_t>(record.path.size() + record.group.size());
  }
  for (const PackedRecord& record : records) append(index, std::as_bytes(std::span(record.labels)));
  for (const PackedRecord& record : records) {
    append(index, std::as_bytes(std::span(record.path)));
    append(index, std::as_bytes(std::span(record.group)));
  }
  pad(index);
  int64_t offset = PackedShard::kHeaderBytes + static_cast<int64_t>(index.size());
  for (int64_t i = 0; i < count; ++i) {
    store<int64_t>(index, i * PackedShard::kRowBytes + layout::kOffset, offset);
    offset += static_cast<int64_t>(records[static_cast<size_t>(i)].stored.size());
  }
  return index;
}

}  // namespace

PackedRecord make_packed_record(const Image& picture, const Image* mask, PackedCodec codec, int jpeg_quality) {
  PackedRecord record;
  PackedEntry& entry = record.entry;
  entry.height = picture.height;
  entry.width = picture.width;
  entry.channels = picture.channels;
  entry.bits = picture.bits;
  record.stored = encode_packed(picture, codec, jpeg_quality);
  entry.picture_bytes = static_cast<int64_t>(record.stored.size());
  pad(record.stored);
  if (mask != nullptr) {
    check(mask->height == picture.height && mask->width == picture.width && mask->channels == 1 && mask->bits == 8,
          "a mask has the size of its picture");
    const std::vector<std::byte> stored = encode_packed(*mask, mask_codec(codec), jpeg_quality);
    entry.mask_bytes = static_cast<int64_t>(stored.size());
    append(record.stored, stored);
    pad(record.stored);
  }
  entry.checksum = crc32c(record.stored);
  return record;
}

void write_packed_shard(const std::string& path, const PackedShardInfo& info, std::vector<PackedRecord> records) {
  check(!records.empty(), "a shard holds a record");
  const std::vector<std::byte> index = index_of(records, info);
  int64_t bytes = PackedShard::kHeaderBytes + static_cast<int64_t>(index.size());
  for (const PackedRecord& record : records) bytes += static_cast<int64_t>(record.stored.size());
  std::vector<std::byte> header(PackedShard::kHeaderBytes);
  std::memcpy(header.data(), PackedShard::kMagic.data(), PackedShard::kMagic.size());
  store<uint32_t>(header, layout::kVersion, layout::kThisVersion);
  store<uint32_t>(header, layout::kCodec, static_cast<int64_t>(info.codec));
  store<uint32_t>(header, layout::kRecords, static_cast<int64_t>(records.size()));
  store<uint32_t>(header, layout::kLabels, info.labels);
  store<uint32_t>(header, layout::kNumber, info.number);
  store<uint32_t>(header, layout::kCount, info.count);
  store<int64_t>(header, layout::kIndexBytes, static_cast<int64_t>(index.size()));
  store<int64_t>(header, layout::kFileBytes, bytes);
  std::memcpy(header.data() + layout::kJob, info.job.data(), info.job.size());
  store<uint32_t>(header, layout::kIndexChecksum, crc32c(index));
  store<uint32_t>(header, layout::kHeaderChecksum, crc32c(std::span(header).first(layout::kHeaderChecksum)));
  AtomicFile file(path);
  file.write(header);
  file.write(index);
  for (const PackedRecord& record : records) file.write(record.stored);
  file.commit();
}

}  // namespace dtrain
