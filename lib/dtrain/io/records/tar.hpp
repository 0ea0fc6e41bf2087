#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dtrain/io/records/record_file.hpp"

namespace dtrain {

/// A regular file in a tar archive.
struct TarMember {
  std::string name;    ///< as it stands there, less "./" in front
  int64_t header = 0;  ///< where its header begins
  int64_t offset = 0;  ///< where its bytes begin
  int64_t size = 0;
};

/// Goes from member to member of a tar archive: the old format, POSIX ustar and pax (path and size), GNU (long names,
/// base-256 sizes). Folders, links and devices are skipped. Contents are not read: tar has no checksum for them.
class TarWalk {
 public:
  explicit TarWalk(ByteWindow& bytes) : bytes_(bytes) {}
  /// The next regular file, nothing after the end mark. Throws DataError naming file and offset for a header with a
  /// wrong checksum, a size that reaches beyond the file, a name with a NUL or over 64 KiB, sparse files, volumes of
  /// several tapes, an archive without its end mark (it was cut) or that continues after it (several were joined).
  std::optional<TarMember> next();

 private:
  struct Extended;
  [[noreturn]] void refuse(const std::string& what) const;
  bool at_end_mark();
  int64_t data_size(std::span<const std::byte> header, const std::optional<int64_t>& told) const;
  std::string text_of(int64_t size) const;
  void read_pax(int64_t size, Extended& extended) const;

  ByteWindow& bytes_;
  int64_t header_ = 0;  // of the member at hand
};

/// Opens a tar archive; one that is compressed by gzip is decompressed into memory, as in open_tfrecord_file(). Throws
/// DataError too for archives packed by other programs (bzip2, xz, zstd), which are named.
RecordFile open_tar_file(const std::string& path, int64_t max_decompressed);

/// A member's name cut as WebDataset does it: up to the first dot of its last part is the key, after it the
/// extension, in lower case: "a/b.seg.PNG" gives "a/b" and "seg.png". Nothing for names without a key or without a
/// dot, and for WebDataset's own notes ("__…__").
struct WebDatasetName {
  std::string key;
  std::string extension;
};
std::optional<WebDatasetName> webdataset_name(const std::string& member);

}  // namespace dtrain
