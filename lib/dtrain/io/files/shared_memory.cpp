#include "dtrain/io/files/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <random>
#include <sstream>
#include <utility>

#include "dtrain/base/error.hpp"

namespace dtrain {

SharedMemory::SharedMemory(int64_t bytes) : size_(bytes) {
  check(bytes > 0, "shared memory has a size");
  std::random_device random;
  const std::string name = fmt::format("dtrain-{}-{}", random(), random());
  descriptor_ = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (descriptor_ < 0) throw_errno("make", "shared memory", errno);
  address_ = fmt::format("{}/fd/{} {}", getpid(), descriptor_, name);
  const int failed = ftruncate(descriptor_, bytes) == 0 ? 0 : errno;
  if (failed != 0) {
    close(std::exchange(descriptor_, -1));
    throw_errno("size", "shared memory", failed);
  }
  map();
}

SharedMemory::SharedMemory(const std::string& address) : address_(address) {
  std::istringstream words(address);
  std::string place;
  std::string name;
  words >> place >> name;
  place = "/proc/" + place;
  // If that process is in another container, this may be another one's file: check its name before opening it.
  char target[PATH_MAX];
  const ssize_t length = readlink(place.c_str(), target, sizeof target);
  const bool is_it = length > 0 && std::string(target, static_cast<size_t>(length)).starts_with("/memfd:" + name);
  if (is_it) descriptor_ = ::open(place.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
    throw IoError("cannot reach the memory of another process of this host (" + place +
                  "); are they in different containers, or of different users?");
  }
  size_ = status.st_size;
  map();
}

void SharedMemory::map() {
  void* mapped =
      mmap(nullptr, static_cast<size_t>(size_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int failed = errno;
    close(std::exchange(descriptor_, -1));
    throw_errno("map", "shared memory", failed);
  }
  madvise(mapped, static_cast<size_t>(size_), MADV_DONTDUMP);
  data_ = static_cast<std::byte*>(mapped);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_));
  if (descriptor_ >= 0) close(descriptor_);
}

bool SharedMemory::reserve(int64_t offset, int64_t bytes) const {
  check(offset >= 0 && bytes >= 0 && offset <= size_ && bytes <= size_ - offset, "a reserved range lies in the memory");
  if (bytes == 0) return true;
  int result = 0;
  do result = fallocate(descriptor_, 0, offset, bytes);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace dtrain
