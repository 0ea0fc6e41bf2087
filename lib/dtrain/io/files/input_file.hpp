#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

/// A call that a signal interrupted before it did anything is made again.
template <typename Call>
auto repeated(const Call& call) {
  auto result = call();
  while (result == -EINTR) result = call();
  return result;
}

/// A file, open for reading, and closed whatever happens: errors of close() tell nothing then. `path` and `files`
/// outlive it.
class InputFile {
 public:
  /// Throws like throw_errno ("cannot open PATH: …"), DataError for what cannot be opened without waiting.
  InputFile(const std::string& path, FileSystem& files);
  ~InputFile() { files_.close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Bytes of a regular file; throws DataError for everything else.
  int64_t size() const;
  /// Fills `out` with what follows, as far as the file reaches; how many bytes that were. Throws like throw_errno.
  size_t read(std::span<std::byte> out) const;
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void refuse() const;

  FileSystem& files_;
  const std::string& path_;
  int descriptor_ = -1;
};

}  // namespace dtrain
