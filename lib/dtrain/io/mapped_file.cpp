#include "dtrain/io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dtrain/base/error.hpp"

namespace dtrain {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  int descriptor = -1;
  do descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO would wait for a writer
  while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0 && errno == ENXIO) throw DataError(path_ + " is no regular file");  // a socket
  if (descriptor < 0) throw_errno("open", path_, errno);
  struct stat status {};
  const int failed = fstat(descriptor, &status) == 0 ? 0 : errno;
  const bool regular = failed == 0 && S_ISREG(status.st_mode);
  const auto size = regular ? static_cast<size_t>(status.st_size) : 0;
  void* first = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int refused = first == MAP_FAILED ? errno : 0;
  close(descriptor);
  if (failed != 0) throw_errno("inspect", path_, failed);
  if (!regular) throw DataError(path_ + " is no regular file");
  if (refused != 0) throw_errno("map", path_, refused);
  mapped_ = size > 0;
  bytes_ = {static_cast<const std::byte*>(first), size};
  if (mapped_) madvise(first, size, MADV_RANDOM);  // records are read in any order; prefetch() tells what is next
}

MappedFile::MappedFile(std::string path, std::vector<std::byte> bytes)
    : path_(std::move(path)), own_(std::move(bytes)), bytes_(own_) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      own_(std::move(other.own_)),
      bytes_(std::exchange(other.bytes_, {})),
      mapped_(std::exchange(other.mapped_, false)) {}

MappedFile::~MappedFile() {
  if (mapped_) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::prefetch(int64_t offset, int64_t count) const {
  if (!mapped_ || count <= 0) return;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t begin = offset / page * page;
  madvise(const_cast<std::byte*>(bytes_.data()) + begin, static_cast<size_t>(offset + count - begin), MADV_WILLNEED);
}

}  // namespace dtrain
