#include "dtrain/io/pictures/byte_source.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

bool MemorySource::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_.size() || bytes_.size() - offset < out.size()) return false;
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return true;
}

DiskSource::DiskSource(const std::string& path) : path_(path) {
  size_ = static_cast<uint64_t>(file_bytes(path));
  descriptor_ = open_to_read(path, real_file_system());
  if (descriptor_ < 0) throw_errno("open", path, -descriptor_);
}

DiskSource::~DiskSource() { ::close(descriptor_); }

bool DiskSource::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || size_ - offset < out.size()) return false;
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path_, errno);
    if (got == 0) return false;  // it has become shorter
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

DiskSource::Identity DiskSource::identity() const {
  struct stat found {};
  if (::fstat(descriptor_, &found) != 0) throw_errno("inspect", path_, errno);
  return {static_cast<int64_t>(found.st_dev), static_cast<int64_t>(found.st_ino), found.st_size, found.st_mtim.tv_sec,
          found.st_mtim.tv_nsec};
}

}  // namespace dtrain
