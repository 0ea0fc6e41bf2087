#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/words.hpp"
#include "dtrain/io/files/file_system.hpp"
#include "dtrain/io/files/growing_memory.hpp"

namespace dtrain {

/// A file of which any range can be read, by several threads at once: one file of records (TFRecord, tar), open.
/// A compressed one is held decompressed in memory; see open_tfrecord_file() and open_tar_file().
class RecordFile {
 public:
  /// Throws like throw_errno, DataError for a folder. `files` must outlive the object.
  explicit RecordFile(std::string path, FileSystem& files = real_file_system());
  /// Bytes that are there already; `path` is their name for messages.
  RecordFile(std::string path, std::vector<std::byte> bytes);
  RecordFile(std::string path, GrowingMemory bytes);
  ~RecordFile();
  RecordFile(RecordFile&& other) noexcept;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  ///< when it was opened; of what was compressed: decompressed
  bool in_memory() const { return descriptor_ < 0; }

  /// Fills `out` with the bytes from `offset` on. Throws IoError if the file ends earlier (it was cut after it was
  /// opened), like throw_errno for disk errors. 0 <= offset, and the range ends within size().
  void read(int64_t offset, std::span<std::byte> out) const;
  /// Makes the kernel start reading a range that read() will be asked for, and returns at once.
  void ask_ahead(int64_t offset, int64_t bytes) const;

 private:
  std::string path_;
  FileSystem* files_ = nullptr;
  int descriptor_ = -1;
  int64_t size_ = 0;
  std::vector<std::byte> own_;
  GrowingMemory unpacked_;
  std::span<const std::byte> bytes_;  // of either
};

/// Looks at the bytes of a RecordFile a few kilobytes at a time, so that walking over headers does not read what is
/// between them. One thread uses it; the file must outlive it.
class ByteWindow {
 public:
  explicit ByteWindow(const RecordFile& file) : file_(file) {}

  int64_t size() const { return file_.size(); }
  const std::string& path() const { return file_.path(); }
  /// `count` bytes from `offset` on, until the next call. The range lies within the file (InternalError else): who
  /// calls has compared every length with size(). Throws as RecordFile::read().
  std::span<const std::byte> at(int64_t offset, int64_t count);

 private:
  const RecordFile& file_;
  std::vector<std::byte> buffer_;
  int64_t begin_ = 0;  // of the buffer, in the file
};

/// How a file is packed as a whole.
enum class Compression { none, gzip, zlib };

template <>
inline constexpr auto kWordsOf<Compression> = std::to_array<Word<Compression>>({{Compression::gzip, "gzip"},
                                                                                {Compression::zlib, "zlib"}});

/// By the first two bytes. Two bytes are weak evidence: check any better sign that a file is not compressed first.
Compression compression_of(std::span<const std::byte> start);

/// The bytes of a whole gzip file (RFC 1952; several members one after the other too) or zlib stream (RFC 1950).
/// It is read a piece at a time, and the bytes grow where they are: an eighth more than they become is the most that is
/// taken. Throws DataError naming the file for what is damaged, cut, followed by something else, or larger than
/// `max_bytes` when decompressed, as RecordFile::read(), and as MemoryDraw where memory ends.
GrowingMemory decompressed(const RecordFile& packed, Compression compression, int64_t max_bytes);

}  // namespace dtrain
