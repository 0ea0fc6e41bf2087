#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// A file's bytes as memory, read by the kernel when they are touched. Any number of threads may read. If somebody
/// makes the file shorter while it is mapped, or its disk fails, read() and checksum() throw; touching bytes() then
/// ends the process (SIGBUS).
///
/// The first object puts a handler for SIGBUS into the process, which returns a thread that is inside one of these two
/// to it and leaves every other SIGBUS to the default action.
class MappedFile {
 public:
  /// Throws like throw_errno, DataError for what is not a regular file. An empty file has no bytes.
  explicit MappedFile(std::string path);
  /// Existing bytes; `path` is their name for messages.
  MappedFile(std::string path, std::vector<std::byte> bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

  /// Copies the bytes from `offset` on; the range lies within the file as it was opened (InternalError else). Throws
  /// DataError naming the file if it has become shorter since, IoError if the disk cannot read it.
  void read(int64_t offset, std::span<std::byte> out) const;
  /// The same for a range of bytes(), of which `out` becomes a copy.
  void read(std::span<const std::byte> range, std::vector<uint8_t>& out) const;
  /// CRC32C of a range of bytes(). Throws like read().
  uint32_t checksum(std::span<const std::byte> range) const;

  /// This range is wanted soon: the kernel reads it in one go and nothing around it. The range lies within the file.
  void prefetch(int64_t offset, int64_t count) const;

 private:
  template <typename Touch>
  void touch(std::span<const std::byte> range, const Touch& touch) const;
  [[noreturn]] void refuse() const;

  std::string path_;
  std::vector<std::byte> own_;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
};

}  // namespace dtrain
