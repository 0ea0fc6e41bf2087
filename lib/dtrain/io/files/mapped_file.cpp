#include "dtrain/io/files/mapped_file.hpp"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

namespace {

/// A range that a thread is touching now, and where it continues if the file no longer has those bytes.
struct Touched {
  const std::byte* begin;
  const std::byte* end;
  sigjmp_buf back;
};

thread_local Touched* touched = nullptr;  // read by on_bus_error() of the same thread

void on_bus_error(int number, siginfo_t* info, void*) {
  const auto* const place = static_cast<const std::byte*>(info->si_addr);
  if (touched != nullptr && place >= touched->begin && place < touched->end) siglongjmp(touched->back, 1);
  std::signal(number, SIG_DFL);  // not ours: it is raised again as soon as this returns
}

void handle_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // not blocked: siglongjmp() does not restore the mask
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int descriptor = open_to_read(path_, real_file_system());
  if (descriptor == -ENXIO) throw DataError(path_ + " is not a regular file");  // a socket
  if (descriptor < 0) throw_errno("open", path_, -descriptor);
  struct stat status {};
  const int failed = fstat(descriptor, &status) == 0 ? 0 : errno;
  const bool regular = failed == 0 && S_ISREG(status.st_mode);
  const auto size = regular ? static_cast<size_t>(status.st_size) : 0;
  void* first = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int refused = first == MAP_FAILED ? errno : 0;
  close(descriptor);
  if (failed != 0) throw_errno("inspect", path_, failed);
  if (!regular) throw DataError(path_ + " is not a regular file");
  if (refused != 0) throw_errno("map", path_, refused);
  handle_bus_errors();
  mapped_ = size > 0;
  bytes_ = {static_cast<const std::byte*>(first), size};
  if (mapped_) madvise(first, size, MADV_RANDOM);  // records are read in any order; prefetch() announces the next
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

// `touch` is abandoned halfway if the file ends before the range does, so it must own nothing and hold no lock.
template <typename Touch>
void MappedFile::touch(std::span<const std::byte> range, const Touch& touch) const {
  check(
      range.empty() || (range.data() >= bytes_.data() && range.data() + range.size() <= bytes_.data() + bytes_.size()),
      "a range that is touched lies within its file");
  const long page = sysconf(_SC_PAGESIZE);
  Touched here{range.data() - reinterpret_cast<uintptr_t>(range.data()) % static_cast<uintptr_t>(page),
               range.data() + range.size(),
               {}};
  Touched* const outer = touched;
  if (sigsetjmp(here.back, 0) != 0) {
    touched = outer;
    refuse();
  }
  touched = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  touch();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  touched = outer;
}

void MappedFile::refuse() const {
  struct stat status {};
  const int failed = stat(path_.c_str(), &status) == 0 ? 0 : errno;
  if (failed == 0 && status.st_size >= size()) throw IoError("cannot read " + path_ + ": the disk cannot read it");
  throw DataError(path_ + " became shorter while it was read: it had " + with_commas(size()) +
                  " bytes when it was opened" + (failed == 0 ? " and has " + with_commas(status.st_size) : "") +
                  "; replace files by rename, never by overwriting them");
}

void MappedFile::read(int64_t offset, std::span<std::byte> out) const {
  check(offset >= 0 && offset <= size(), "a range that is read begins within its file");
  if (out.empty()) return;  // it may be null then, which memcpy must not be given
  const std::byte* const from = bytes_.data() + offset;
  touch({from, out.size()}, [&] { std::memcpy(out.data(), from, out.size()); });
}

// Memory is reserved before touch(), which must not allocate; unlike resize(), it is not filled with zeros first.
void MappedFile::read(std::span<const std::byte> range, std::vector<uint8_t>& out) const {
  const auto* const first = reinterpret_cast<const uint8_t*>(range.data());
  out.clear();
  out.reserve(range.size());
  touch(range, [&] { out.assign(first, first + range.size()); });
}

uint32_t MappedFile::checksum(std::span<const std::byte> range) const {
  uint32_t sum = 0;
  touch(range, [&] { sum = crc32c(range); });
  return sum;
}

void MappedFile::prefetch(int64_t offset, int64_t count) const {
  if (!mapped_ || count <= 0) return;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t begin = offset / page * page;
  madvise(const_cast<std::byte*>(bytes_.data()) + begin, static_cast<size_t>(offset + count - begin), MADV_WILLNEED);
}

}  // namespace dtrain
