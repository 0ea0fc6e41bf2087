// Makes one file system call of a process fail: linked into a test program, or put before any program by LD_PRELOAD.
//
//   DTRAIN_FAULT_FOLDER  absolute path; only calls on it and on paths below are counted and fail
//   DTRAIN_FAULT         KIND@N, at the N-th such call (counted from 1): EIO ENOSPC EDQUOT EFBIG EINTR (the call
//                        fails), short (a write takes half of its bytes), kill (the process dies before the call).
//                        KIND@N+: every later call fails too
//   DTRAIN_FAULT_TELL    file that the number of calls is written to when the process ends by itself
//
// Counted: open read write fsync close rename unlink mkdir, and openat renameat unlinkat mkdirat; not folders
// that are opened to be listed or entered, since such calls transfer no byte of a file.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kDescriptors = 4096;
std::atomic<long> calls{0};
std::atomic<bool> ours[kDescriptors];

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool beneath(const char* path) {
  const char* folder = std::getenv("DTRAIN_FAULT_FOLDER");
  if (folder == nullptr || path == nullptr) return false;
  const size_t length = std::strlen(folder);
  return std::strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

bool beneath(int folder, const char* name) {
  if (std::getenv("DTRAIN_FAULT_FOLDER") == nullptr || folder < 0 || name[0] == '/') return beneath(name);
  char self[64];
  char path[8192];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", folder);
  const ssize_t length = ::readlink(self, path, sizeof path - std::strlen(name) - 2);
  if (length < 0) return false;
  path[length] = '/';
  std::strcpy(path + length + 1, std::strcmp(name, ".") == 0 ? "" : name);
  if (std::strcmp(name, ".") == 0) path[length] = '\0';
  return beneath(path);
}

bool is_ours(int descriptor) {
  return std::getenv("DTRAIN_FAULT_FOLDER") != nullptr && descriptor >= 0 && descriptor < kDescriptors &&
         ours[descriptor].load();
}

enum class Effect { none, fails, is_short };

/// Counts a call. If it must fail, errno is set.
Effect count_call() {
  const long number = ++calls;
  const char* fault = std::getenv("DTRAIN_FAULT");
  const char* mark = fault == nullptr ? nullptr : std::strchr(fault, '@');
  if (mark == nullptr) return Effect::none;
  const long at = std::atol(mark + 1);
  const bool stays = fault[std::strlen(fault) - 1] == '+';
  if (number != at && !(stays && number > at)) return Effect::none;
  const auto is = [&](const char* kind) {
    return std::strlen(kind) == static_cast<size_t>(mark - fault) && std::strncmp(fault, kind, std::strlen(kind)) == 0;
  };
  if (is("kill")) ::kill(::getpid(), SIGKILL);
  if (is("short")) return Effect::is_short;
  errno = is("ENOSPC") ? ENOSPC : is("EDQUOT") ? EDQUOT : is("EFBIG") ? EFBIG : is("EINTR") ? EINTR : EIO;
  return Effect::fails;
}

int opened(const char* path, int flags, mode_t mode) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  const bool counted = (flags & O_DIRECTORY) == 0 && beneath(path);
  if (counted && count_call() == Effect::fails) return -1;
  const int descriptor = real(path, flags, mode);
  if (descriptor >= 0 && descriptor < kDescriptors) ours[descriptor] = counted;
  return descriptor;
}

int opened(int folder, const char* name, int flags, mode_t mode) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  const bool counted = (flags & (O_PATH | O_DIRECTORY)) == 0 && beneath(folder, name);
  if (counted && count_call() == Effect::fails) return -1;
  const int descriptor = real(folder, name, flags, mode);
  if (descriptor >= 0 && descriptor < kDescriptors) ours[descriptor] = counted;
  return descriptor;
}

struct Teller {
  ~Teller() { tell(); }
  static void tell() {
    const char* path = std::getenv("DTRAIN_FAULT_TELL");
    if (path == nullptr) return;
    if (FILE* file = std::fopen(path, "w")) {
      std::fprintf(file, "%ld\n", calls.load());
      std::fclose(file);
    }
  }
} teller;

}  // namespace

extern "C" {

long dtrain_fault_calls() { return calls.load(); }

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened(path, flags, mode);
}

int openat(int folder, const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened(folder, name, flags, mode);
}

ssize_t read(int descriptor, void* out, size_t bytes) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  if (is_ours(descriptor) && count_call() == Effect::fails) return -1;
  return real(descriptor, out, bytes);
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  const Effect effect = is_ours(descriptor) ? count_call() : Effect::none;
  if (effect == Effect::fails) return -1;
  return real(descriptor, from, effect == Effect::is_short ? (bytes + 1) / 2 : bytes);
}

// dtrain ends so, without the destructors of libraries.
[[noreturn]] void _Exit(int code) {
  Teller::tell();
  ::_exit(code);
}

int fsync(int descriptor) {
  static auto* const real = next<int(int)>("fsync");
  if (is_ours(descriptor) && count_call() == Effect::fails) return -1;
  return real(descriptor);
}

int close(int descriptor) {
  static auto* const real = next<int(int)>("close");
  if (!is_ours(descriptor)) return real(descriptor);
  const Effect effect = count_call();
  const int error = errno;
  ours[descriptor] = false;
  const int result = real(descriptor);  // whatever close() returns, the descriptor is gone
  if (effect != Effect::fails) return result;
  errno = error;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  if (beneath(to) && count_call() == Effect::fails) return -1;
  return real(from, to);
}

int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  if (beneath(path) && count_call() == Effect::fails) return -1;
  return real(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  if (beneath(path) && count_call() == Effect::fails) return -1;
  return real(path, mode);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*)>("renameat");
  if (beneath(to_folder, to) && count_call() == Effect::fails) return -1;
  return real(from_folder, from, to_folder, to);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  if (beneath(folder, name) && count_call() == Effect::fails) return -1;
  return real(folder, name, flags);
}

int mkdirat(int folder, const char* name, mode_t mode) noexcept {
  static auto* const real = next<int(int, const char*, mode_t)>("mkdirat");
  if (beneath(folder, name) && count_call() == Effect::fails) return -1;
  return real(folder, name, mode);
}

}  // extern "C"
