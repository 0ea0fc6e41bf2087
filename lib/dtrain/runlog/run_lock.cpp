#include "dtrain/runlog/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/time.hpp"

namespace dtrain {

// The file's text: the mark, then who holds the lock.
constexpr std::string_view kHeldBy = "held by ";
constexpr std::string_view kFree = "free\n";
constexpr std::string_view kHolderBefore = "process ";  // version 0.1.0 wrote this before the holder

static std::string text_in(int descriptor) {
  std::array<char, 512> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  return {text.data(), count > 0 ? static_cast<size_t>(count) : 0};
}

// Who holds the lock, or ended without releasing it; "" = nobody.
static std::string holder_in(int descriptor, const std::string& mark) {
  std::string line = text_in(descriptor);
  const size_t end = line.find('\n');
  if (end == std::string::npos) return "";
  line.resize(end);
  const std::string held = mark + std::string(kHeldBy);
  if (line.starts_with(held)) return line.substr(held.size());
  return line.starts_with(kHolderBefore) ? line : "";
}

// Errors are ignored: the text only informs people and marks the folder, and a full disk must not prevent a start.
static void write_text(int descriptor, std::string_view text) {
  if (::pwrite(descriptor, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::ftruncate(descriptor, static_cast<off_t>(text.size())) != 0)
    errno = 0;
}

// Whether the open file is still the one at `path`. Errors count as yes: that a file server does not answer for a
// moment does not mean that the file has been moved.
static bool is_at(const std::string& path, int descriptor) {
  struct stat opened {};
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
  return ::fstat(descriptor, &opened) != 0 || (opened.st_dev == named.st_dev && opened.st_ino == named.st_ino);
}

bool RunLock::is_mark(const std::string& text, const Kind& kind) {
  return text.starts_with(kind.mark) || (kind.mark == kTraining.mark && text.starts_with(kHolderBefore));
}

std::string RunLock::this_process() {
  const char* slurm_job = std::getenv("SLURM_JOB_ID");
  return "process " + std::to_string(::getpid()) + " on " + host_name() +
         (slurm_job != nullptr ? ", Slurm job " + std::string(slurm_job) : "") + ", since " + utc_now();
}

bool RunLock::wait_a_little(double waited_s) {
  constexpr double kPatience = 5;  // seconds
  if (waited_s > kPatience) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return true;
}

RunLock::RunLock(const std::string& folder, const std::string& holder, const Patience& patience, const Kind& kind)
    : path_(folder + "/.lock"), mark_(kind.mark) {
  const Stopwatch waiting;
  while (true) {
    folder_ = std::make_unique<HeldFolder>(folder);  // opened again: it may have been moved aside meanwhile
    descriptor_ = folder_->open(path_, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor_ < 0) throw_errno("write", path_, -descriptor_);
    held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    const bool taken = !held_ && (errno == EWOULDBLOCK || errno == EINTR);
    if (!taken && stands()) break;
    const std::string other = holder_in(descriptor_, mark_);
    ::close(descriptor_);
    if (!patience(waiting.seconds()))
      throw ConfigError("another job is " + std::string(kind.doing) + " " + folder + " (" +
                        (other.empty() ? "its .lock is held" : other) +
                        "); wait for it, end it, or choose another folder with " + std::string(kind.options));
  }
  left_by_ = holder_in(descriptor_, mark_);
  ::fchmod(descriptor_, 0600);  // earlier versions let the group read it
  write_text(descriptor_, mark_ + std::string(kHeldBy) + holder + "\n");
}

RunLock::~RunLock() {
  write_text(descriptor_, mark_ + std::string(kFree));
  ::close(descriptor_);
}

bool RunLock::stands() const { return is_at(path_, descriptor_); }

std::string RunLock::what_happened() const {
  const std::string place = folder_->place_now();
  if (place.empty()) return "was removed or cannot be found";
  FileSystem::Status held;
  FileSystem::Status named;
  const bool same = folder_->status(folder_->path(), false, held) == 0 &&
                    real_file_system().status(folder_->path(), true, named) == 0 && held.device == named.device &&
                    held.inode == named.inode;
  return same ? "has lost its .lock, because somebody removed the folder or another job took its place,"
              : "was moved to " + place;
}

}  // namespace dtrain
