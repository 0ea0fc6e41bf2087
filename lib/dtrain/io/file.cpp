#include "dtrain/io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

constexpr size_t kPiece = size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB in one call

/// A descriptor that is closed whatever happens. For reading: errors of close() tell nothing then.
class InputDescriptor {
 public:
  explicit InputDescriptor(const std::string& path) : path_(path) {
    do descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) throw_errno("open", path, errno);
  }
  ~InputDescriptor() { ::close(descriptor_); }
  InputDescriptor(const InputDescriptor&) = delete;
  InputDescriptor& operator=(const InputDescriptor&) = delete;

  /// Bytes of a regular file, 0 for a pipe.
  int64_t size() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw_errno("inspect", path_, errno);
    if (S_ISDIR(status.st_mode)) throw DataError(path_ + " is a folder where a file is expected");
    return S_ISREG(status.st_mode) ? status.st_size : 0;
  }

  /// Fills `out` as far as the file reaches; how many bytes that were.
  size_t read(std::span<std::byte> out) const {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = ::read(descriptor_, out.data() + done, std::min(out.size() - done, kPiece));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno("read", path_, errno);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  int descriptor() const { return descriptor_; }

 private:
  const std::string& path_;
  int descriptor_ = -1;
};

[[noreturn]] void too_large(const std::string& path, int64_t max_bytes) {
  throw DataError(path + " is larger than " + with_commas(max_bytes) + " bytes, the most that is read of such a file");
}

/// Appends the whole file to `out`, a vector of std::byte or a string.
template <typename Bytes>
void read_all(const std::string& path, int64_t max_bytes, Bytes& out) {
  const InputDescriptor input(path);
  const int64_t expected = input.size();
  if (expected > max_bytes) too_large(path, max_bytes);
  size_t done = 0;
  // One byte more than expected shows the end in the first read; a pipe or a growing file takes more rounds.
  for (size_t room = static_cast<size_t>(expected) + 1;; room = out.size() + (size_t{1} << 16)) {
    out.resize(room);
    done += input.read(std::as_writable_bytes(std::span(out.data() + done, out.size() - done)));
    if (static_cast<int64_t>(done) > max_bytes) too_large(path, max_bytes);
    if (done < out.size()) break;
  }
  out.resize(done);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Makes a rename in `folder` survive a power cut. Some network file systems cannot do it and say EINVAL: they order
/// such operations themselves.
void sync_folder(const std::string& folder) {
  const InputDescriptor input(folder);
  if (::fsync(input.descriptor()) != 0 && errno != EINVAL && errno != ENOTSUP)
    throw_errno("sync folder", folder, errno);
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path, int64_t max_bytes) {
  std::vector<std::byte> out;
  read_all(path, max_bytes, out);
  return out;
}

std::string read_text(const std::string& path, int64_t max_bytes) {
  std::string out;
  read_all(path, max_bytes, out);
  return out;
}

std::vector<std::byte> read_file_start(const std::string& path, int64_t bytes) {
  const InputDescriptor input(path);
  std::vector<std::byte> out(static_cast<size_t>(std::min(bytes, input.size())));
  out.resize(input.read(out));
  return out;
}

int64_t file_bytes(const std::string& path) { return InputDescriptor(path).size(); }

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  if (::unlink(temporary_.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    throw_errno("remove the left-over", temporary_, errno);
  descriptor_ = ::open(temporary_.c_str(), kFlags, 0640);
  if (descriptor_ < 0) throw_errno("create", temporary_, errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  check(descriptor_ >= 0, "an AtomicFile is written before it is committed or has failed");
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kPiece));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) give_up("write", errno);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::write(const std::string& text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::commit() {
  check(descriptor_ >= 0, "an AtomicFile is committed once, and not after it has failed");
  if (::fsync(descriptor_) != 0) give_up("sync", errno);
  if (!temporary_is_ours()) {
    ::close(std::exchange(descriptor_, -1));
    throw IoError("cannot publish " + path_ + ": another process is writing it too; give each run its own folder");
  }
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    const int error_number = errno;
    ::unlink(temporary_.c_str());
    throw_errno("close", path_, error_number);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error_number = errno;
    ::unlink(temporary_.c_str());
    throw_errno("publish", path_, error_number);
  }
  sync_folder(folder_of(path_));
}

void AtomicFile::give_up(const std::string& doing, int error_number) {
  discard();
  throw_errno(doing, path_, error_number);
}

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  if (temporary_is_ours()) ::unlink(temporary_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

/// False when another process has replaced the temporary file by its own: renaming it would publish a torn file.
bool AtomicFile::temporary_is_ours() const {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor_, &opened) == 0 && ::lstat(temporary_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void write_file_atomically(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void make_folders(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string folder = path.substr(0, end);
    if (folder.empty() || is_folder(folder)) continue;
    // Another process may make it between the look and the attempt.
    if (::mkdir(folder.c_str(), 0750) != 0 && !(errno == EEXIST && is_folder(folder)))
      throw_errno("make folder", folder, errno);
  }
}

}  // namespace dtrain
