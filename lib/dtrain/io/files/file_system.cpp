#include "dtrain/io/files/file_system.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

namespace dtrain {

namespace {

constexpr size_t kPiece = size_t{1} << 30;  // Linux reads or writes at most 2 GiB - 4 KiB in one call

template <typename Result>
Result or_error(Result result) {
  return result < 0 ? static_cast<Result>(-errno) : result;
}

int told(int result, const struct stat& from, FileSystem::Status& out) {
  if (result < 0) return -errno;
  out = status_of(from);
  return 0;
}

class RealFileSystem : public FileSystem {
 public:
  int open(const std::string& path, int flags, unsigned mode) override {
    return or_error(::open(path.c_str(), flags, mode));
  }
  ssize_t read(int descriptor, std::span<std::byte> out) override {
    return or_error(::read(descriptor, out.data(), std::min(out.size(), kPiece)));
  }
  ssize_t read_at(int descriptor, int64_t offset, std::span<std::byte> out) override {
    return or_error(::pread(descriptor, out.data(), std::min(out.size(), kPiece), offset));
  }
  int will_need(int descriptor, int64_t offset, int64_t bytes) override {
    return -posix_fadvise(descriptor, offset, bytes, POSIX_FADV_WILLNEED);
  }
  ssize_t write(int descriptor, std::span<const std::byte> bytes) override {
    return or_error(::write(descriptor, bytes.data(), std::min(bytes.size(), kPiece)));
  }
  int sync(int descriptor) override { return or_error(::fsync(descriptor)); }
  int sync_all(int descriptor) override { return or_error(::syncfs(descriptor)); }
  int close(int descriptor) override { return or_error(::close(descriptor)); }
  int status(int descriptor, Status& out) override {
    struct stat found {};
    return told(::fstat(descriptor, &found), found, out);
  }
  int status(const std::string& path, bool follow_link, Status& out) override {
    struct stat found {};
    return told(follow_link ? ::stat(path.c_str(), &found) : ::lstat(path.c_str(), &found), found, out);
  }
  int rename(const std::string& from, const std::string& to) override {
    return or_error(::rename(from.c_str(), to.c_str()));
  }
  int unlink(const std::string& path) override { return or_error(::unlink(path.c_str())); }
  int make_folder(const std::string& path, unsigned mode) override { return or_error(::mkdir(path.c_str(), mode)); }
  int list(const std::string& folder, std::vector<std::string>& names) override {
    const int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    return opened < 0 ? opened : list_open_folder(opened, names);
  }
};

}  // namespace

FileSystem::Status status_of(const struct stat& found) {
  const bool is_file = S_ISREG(found.st_mode);
  return {S_ISDIR(found.st_mode), is_file, is_file ? found.st_size : 0, found.st_dev, found.st_ino};
}

int list_open_folder(int descriptor, std::vector<std::string>& names) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(descriptor), ::closedir);
  if (!open) {
    const int failed = -errno;
    ::close(descriptor);
    return failed;
  }
  for (;;) {
    errno = 0;  // readdir() reports an error only by setting it
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) return -errno;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

static int opened(const std::string& path, FileSystem& files, int flags) {
  int descriptor = -EINTR;
  while (descriptor == -EINTR) descriptor = files.open(path, flags | O_RDONLY | O_CLOEXEC, 0);
  return descriptor;
}

int open_to_read(const std::string& path, FileSystem& files) {
  const int descriptor = opened(path, files, O_NONBLOCK);
  return descriptor == -EWOULDBLOCK ? opened(path, files, 0) : descriptor;  // leased, so a regular file: wait
}

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

}  // namespace dtrain
