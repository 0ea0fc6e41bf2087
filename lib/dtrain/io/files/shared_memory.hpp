#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace dtrain {

/// Memory that processes of one host share, by memfd_create(2). It has no name among files: nothing is left behind
/// however its processes end, and the size of /dev/shm does not matter. It is zero at first, and is gone with the last
/// process that holds it.
class SharedMemory {
 public:
  /// `bytes` of address space, > 0; pages are taken by reserve(). Throws like throw_errno.
  explicit SharedMemory(int64_t bytes);
  /// The memory at the address() given by another process of this host, while that process holds it. Throws IoError if
  /// it cannot be reached: another container or user.
  explicit SharedMemory(const std::string& address);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// One line for another process.
  const std::string& address() const { return address_; }
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

  /// Allocates the pages of a range; must be called before it is touched. False if the kernel has none left. Any
  /// process and thread may call it, for any range and repeatedly.
  bool reserve(int64_t offset, int64_t bytes) const;

 private:
  void map();

  std::string address_;
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace dtrain
