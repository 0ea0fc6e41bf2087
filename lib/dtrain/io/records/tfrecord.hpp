#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/records/record_file.hpp"

namespace dtrain {

// TFRecord files: for each record 8 bytes length n (little-endian), 4 bytes masked CRC32C of these 8, n bytes data,
// 4 bytes masked CRC32C of the data. There is no header, no index and no end mark: that a file was cut between two
// records cannot be seen.

/// How TFRecord stores CRC32C `crc`, so that the checksum of data that hold checksums is no special case.
uint32_t masked_crc(uint32_t crc);

/// Where one record is in its (decompressed) file.
struct TfRecordPlace {
  int64_t number = 0;  ///< from 0
  int64_t offset = 0;  ///< of the frame; the data begin 12 bytes later
  int64_t size = 0;    ///< of the data
  int64_t data() const { return offset + 12; }
  int64_t end() const { return offset + size + 16; }
};

/// "PATH: record 17 at byte 4,096", for messages.
std::string tfrecord_name(const std::string& path, int64_t number, int64_t offset);

/// Goes from record to record by their lengths, each checked by its checksum; data are left alone, read_tfrecord()
/// checks them.
class TfRecordWalk {
 public:
  explicit TfRecordWalk(ByteWindow& bytes) : bytes_(bytes) {}
  /// The next record, nothing at the end of the file. Throws DataError naming file, record and offset for a length with
  /// a wrong checksum, of more than 1 GiB, or that reaches beyond the file.
  std::optional<TfRecordPlace> next();
  /// The masked CRC32C of a record's data from the file. It is beside the next record's length.
  uint32_t told_checksum(const TfRecordPlace& place);

 private:
  ByteWindow& bytes_;
  int64_t number_ = 0;
  int64_t offset_ = 0;
};

/// The data of record `number`, whose frame begins at `offset` and holds `size` bytes of data. Throws DataError naming
/// file, record and offset if length or data do not have their checksums, or the length is another one.
std::vector<std::byte> read_tfrecord(const RecordFile& file, int64_t number, int64_t offset, int64_t size);

/// Opens a TFRecord file. One that is compressed as a whole (gzip or zlib, as TensorFlow writes it with
/// TFRecordOptions) is decompressed into memory: it cannot be read from the middle, and compression gains nothing on
/// pictures that are already compressed. Throws like RecordFile() and decompressed(), which is where `max_decompressed`
/// is explained.
RecordFile open_tfrecord_file(const std::string& path, int64_t max_decompressed);

}  // namespace dtrain
