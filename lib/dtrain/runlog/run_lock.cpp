#include "dtrain/runlog/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"

namespace dtrain {

// What a holder wrote: one line.
static std::string holder_in(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  const std::string line(text.data(), count > 0 ? static_cast<size_t>(count) : 0);
  const size_t end = line.find('\n');
  return end != std::string::npos ? line.substr(0, end) : "";
}

// False where another file has taken the name since it was opened: the folder was moved aside.
static bool is_at(const std::string& path, int descriptor) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

RunLock::RunLock(const std::string& folder, const std::string& holder) {
  const std::string path = folder + "/.lock";
  const Stopwatch waiting;
  while (true) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (descriptor_ < 0) throw_errno("write", path, errno);
    held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    const bool taken = !held_ && (errno == EWOULDBLOCK || errno == EINTR);
    if (!taken && is_at(path, descriptor_)) break;
    const std::string other = holder_in(descriptor_);
    ::close(descriptor_);
    if (waiting.seconds() > kPatience)
      throw ConfigError("another job trains in " + folder + " (" + (other.empty() ? "its .lock is held" : other) +
                        "); wait for it, end it, or choose another folder with --run-dir or name");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  left_by_ = holder_in(descriptor_);
  const std::string line = holder + "\n";
  // For people alone: a disk without room must not keep training from starting.
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, line.data(), line.size(), 0) < 0) errno = 0;
}

RunLock::~RunLock() {
  if (::ftruncate(descriptor_, 0) != 0) errno = 0;
  ::close(descriptor_);
}

}  // namespace dtrain
