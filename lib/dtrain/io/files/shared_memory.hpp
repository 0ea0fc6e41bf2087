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
  /// The memory whose address() another process of this host tells, while that process holds it. Throws IoError where
  /// it cannot be reached: another container or user.
  explicit SharedMemory(const std::string& address);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// One line for another process.
  const std::string& address() const { return address_; }
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

  /// Takes the pages of a range, which must be done before it is touched. False where the kernel has none left. Any
  /// process and thread may call it, for any range and again.
  bool reserve(int64_t offset, int64_t bytes) const;

 private:
  void map();

  std::string address_;
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace dtrain
