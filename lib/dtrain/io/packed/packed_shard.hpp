#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/words.hpp"
#include "dtrain/io/files/mapped_file.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// The packed shard: samples with pictures of one size, in a file that is mapped into memory and read at any offset.
// docs/packed_format.md has every byte; packed_writer.hpp writes it.

/// How the pictures of a shard are stored. Masks are raw in a raw shard and deflated in the others, never JPEG.
enum class PackedCodec : uint32_t {
  raw,      ///< samples as they are, 16-bit ones little-endian
  jpeg,     ///< JPEG files; 8 bits alone
  deflate,  ///< each row less the row above it (bytes, modulo 256), then a zlib stream
};

template <>
inline constexpr auto kWordsOf<PackedCodec> = std::to_array<Word<PackedCodec>>({{PackedCodec::raw, "raw"},
                                                                                {PackedCodec::jpeg, "jpeg"},
                                                                                {PackedCodec::deflate, "deflate"}});

/// What a shard says about itself.
struct PackedShardInfo {
  PackedCodec codec = PackedCodec::raw;
  int64_t number = 0;             ///< of the shard in its set, from 0
  int64_t count = 1;              ///< of shards in the set
  int64_t labels = 0;             ///< in every record; 0: none
  std::array<uint8_t, 32> job{};  ///< SHA-256 of what decides every byte of the set
};

enum class PackedPart : uint8_t { none, train, valid, test };

template <>
inline constexpr auto kWordsOf<PackedPart> = std::to_array<Word<PackedPart>>({{PackedPart::train, "train"},
                                                                              {PackedPart::valid, "valid"},
                                                                              {PackedPart::test, "test"}});

/// Of a record's picture.
inline constexpr int64_t kMostPackedChannels = 16;

/// A record without its pixels.
struct PackedEntry {
  int64_t offset = 0;  ///< of the picture in the file; the mask follows at the next multiple of 64 bytes
  int64_t picture_bytes = 0;
  int64_t mask_bytes = 0;  ///< 0: no mask
  uint32_t checksum = 0;   ///< CRC32C from `offset` to the next record or the end of the file
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  ///< 1 … kMostPackedChannels
  int bits = 8;          ///< 8 or 16
  PackedPart part = PackedPart::none;
  int64_t class_index = -1;
  std::string path;   ///< the sample's name
  std::string group;  ///< "" if the data have none

  /// Of the whole record, what fills it up to a multiple of 64 included.
  int64_t bytes() const;
};

/// Where the stored bytes of one record lie in the shard. They are for picture() and mask(): touching them directly
/// ends the process if the file has become shorter meanwhile.
struct PackedBytes {
  std::span<const std::byte> picture;
  std::span<const std::byte> mask;
};

/// An open shard. Any number of threads may read. A shard holds 2^32 - 1 records at most.
class PackedShard {
 public:
  static constexpr std::string_view kMagic = "dtpack\r\n";
  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t kHeaderBytes = 128;
  static constexpr int64_t kRowBytes = 48;

  /// Checks header and index with their checksums, and that every length fits the file, which must be as long as its
  /// header says; pixels are left alone. Throws DataError naming file, record and offset, and as MappedFile(). So do
  /// all others, for a file that becomes shorter while it is open.
  explicit PackedShard(MappedFile file);

  const std::string& path() const { return file_.path(); }
  const PackedShardInfo& info() const { return info_; }
  int64_t records() const { return records_; }
  int64_t bytes() const { return file_.size(); }
  /// Of the header, and through it of the index and all records.
  uint32_t checksum() const { return checksum_; }

  PackedEntry entry(int64_t record) const;
  std::vector<float> labels(int64_t record) const;

  /// Compares the record with its checksum. Throws DataError naming file, record and offset.
  PackedBytes read(int64_t record) const;
  /// Pictures and masks of what read() gave; a mask has one channel of 8 bits, its classes' numbers. Throw DataError
  /// for bytes that are not a picture of the size given in the index.
  Image picture(int64_t record, const PackedBytes& stored) const;
  Image mask(int64_t record, const PackedBytes& stored) const;

  /// "PATH: record 17 (NAME) at byte 4,096", for messages.
  std::string name_of(int64_t record) const;

 private:
  using Row = std::array<std::byte, kRowBytes>;

  [[noreturn]] void refuse(const std::string& what) const;
  void read_header();
  void check_index() const;
  void check_row(int64_t record, const PackedEntry& entry) const;
  bool all_zero(int64_t offset, int64_t count) const;
  Image decoded(std::span<const std::byte> stored, const ImageHeader& header, PackedCodec codec, int64_t record) const;
  std::string row_name(int64_t record) const;
  Row row_of(int64_t record) const;
  int64_t names_at() const;

  MappedFile file_;
  PackedShardInfo info_;
  int64_t records_ = 0;
  int64_t index_bytes_ = 0;
  uint32_t checksum_ = 0;
};

/// True for a file that begins as a packed shard does.
bool is_packed_shard(const std::string& path);

}  // namespace dtrain
