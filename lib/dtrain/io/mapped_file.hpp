#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// A file's bytes as memory, read by the kernel where they are touched. Any number of threads may read. Whoever makes
/// the file shorter while it is mapped ends the process (SIGBUS): replace such files by rename, never in place.
class MappedFile {
 public:
  /// Throws like throw_errno, DataError for what is no regular file. An empty file has no bytes.
  explicit MappedFile(std::string path);
  /// Bytes that are there already; `path` is their name for messages.
  MappedFile(std::string path, std::vector<std::byte> bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

  /// This range is wanted soon: the kernel reads it in one go and nothing around it. The range lies within the file.
  void prefetch(int64_t offset, int64_t count) const;

 private:
  std::string path_;
  std::vector<std::byte> own_;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
};

}  // namespace dtrain
