#include "dtrain/io/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/input_file.hpp"

namespace dtrain {

namespace {

constexpr int64_t kLargeFile = int64_t{64} << 20;

[[noreturn]] void too_large(const std::string& path, int64_t max_bytes) {
  throw DataError(path + " is larger than " + with_commas(max_bytes) +
                  " bytes, the most that is read from such a file");
}

/// Appends the whole file to `out`, a vector of std::byte or a string.
template <typename Bytes>
void read_all(const std::string& path, int64_t max_bytes, FileSystem& files, Bytes& out) {
  const InputFile input(path, files);
  const int64_t expected = input.size();
  if (expected > max_bytes) too_large(path, max_bytes);
  if (expected > kLargeFile) MemoryDraw("reading " + path, "use a smaller file").take(expected);
  size_t done = 0;
  // One byte more than expected shows the end in the first read; a file of /proc or one that grows takes more rounds.
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

bool is_folder(const std::string& path, FileSystem& files) {
  FileSystem::Status status;
  return files.status(path, true, status) == 0 && status.is_folder;
}

}  // namespace

void sync_folder(const std::string& folder, FileSystem& files) {
  const InputFile input(folder, files);
  const int failed = files.sync(input.descriptor());
  if (failed < 0 && failed != -EINVAL && failed != -ENOTSUP) throw_errno("sync folder", folder, -failed);
}

std::vector<std::byte> read_file(const std::string& path, int64_t max_bytes, FileSystem& files) {
  std::vector<std::byte> out;
  read_all(path, max_bytes, files, out);
  return out;
}

std::string read_text(const std::string& path, int64_t max_bytes) {
  std::string out;
  read_all(path, max_bytes, real_file_system(), out);
  return out;
}

std::vector<std::byte> read_file_start(const std::string& path, int64_t bytes) {
  const InputFile input(path, real_file_system());
  std::vector<std::byte> out(static_cast<size_t>(std::min(bytes, input.size())));
  out.resize(input.read(out));
  return out;
}

int64_t file_bytes(const std::string& path) { return InputFile(path, real_file_system()).size(); }

int64_t changed_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_errno("look at", path, errno);
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool is_there(const std::string& path, FileSystem& files) {
  FileSystem::Status status;
  const int failed = files.status(path, true, status);
  if (failed < 0 && failed != -ENOENT && failed != -ENOTDIR) throw_errno("look at", path, -failed);
  return failed >= 0;
}

int open_to_append(const std::string& path, FileSystem& files) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  const int descriptor = repeated([&] { return files.open(path, kFlags, 0640); });
  if (descriptor < 0) throw_errno("write", path, -descriptor);
  return descriptor;
}

void append_to_file(const std::string& path, const std::string& text, FileSystem& files) {
  const int descriptor = open_to_append(path, files);
  int failed = 0;
  for (std::span<const std::byte> left = std::as_bytes(std::span(text)); !left.empty() && failed == 0;) {
    const ssize_t done = repeated([&] { return files.write(descriptor, left); });
    if (done > 0) left = left.subspan(static_cast<size_t>(done));
    if (done <= 0) failed = done < 0 ? static_cast<int>(-done) : EIO;
  }
  if (failed == 0) failed = -files.sync(descriptor);
  files.close(descriptor);
  if (failed != 0) throw_errno("write", path, failed);
}

AtomicFile::AtomicFile(std::string path, FileSystem& files)
    : files_(files), path_(std::move(path)), temporary_(path_ + ".tmp") {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int removed = files_.unlink(temporary_);
  if (removed < 0 && removed != -ENOENT && removed != -ENOTDIR)
    throw_errno("write " + path_ + ", because what an interrupted write left here cannot be removed:", temporary_,
                -removed);
  descriptor_ = repeated([&] { return files_.open(temporary_, kFlags, 0640); });
  if (descriptor_ < 0) throw_errno("create", temporary_, -descriptor_);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  check(descriptor_ >= 0, "an AtomicFile is written before it is committed or has failed");
  while (!bytes.empty()) {
    const ssize_t done = repeated([&] { return files_.write(descriptor_, bytes); });
    if (done <= 0) give_up("write", done < 0 ? static_cast<int>(-done) : EIO);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void AtomicFile::write(const std::string& text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::commit() {
  check(descriptor_ >= 0, "an AtomicFile is committed once, and not after it has failed");
  if (const int failed = files_.sync(descriptor_); failed < 0) give_up("sync", -failed);
  publish();
  sync_folder(folder_of(path_), files_);
}

void AtomicFile::publish() {
  check(descriptor_ >= 0, "an AtomicFile is published once, and not after it has failed");
  if (!temporary_is_ours()) {
    files_.close(std::exchange(descriptor_, -1));
    throw IoError("cannot publish " + path_ + ": another process is writing it too; give each run its own folder");
  }
  if (const int failed = files_.close(std::exchange(descriptor_, -1)); failed < 0 && failed != -EINTR) {
    files_.unlink(temporary_);
    throw_errno("close", path_, -failed);
  }
  if (const int failed = files_.rename(temporary_, path_); failed < 0) {
    files_.unlink(temporary_);
    throw_errno("publish", path_, -failed);
  }
}

void AtomicFile::give_up(const std::string& doing, int error_number) {
  discard();
  throw_errno(doing, path_, error_number);
}

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  if (temporary_is_ours()) files_.unlink(temporary_);
  files_.close(std::exchange(descriptor_, -1));
}

/// False when another process has replaced the temporary file by its own: renaming it would publish a torn file.
bool AtomicFile::temporary_is_ours() const {
  FileSystem::Status opened;
  FileSystem::Status named;
  return files_.status(descriptor_, opened) == 0 && files_.status(temporary_, false, named) == 0 &&
         opened.device == named.device && opened.inode == named.inode;
}

FileBatch::~FileBatch() {
  for (const auto& [disk, descriptor] : disks_) files_.close(descriptor);
}

void FileBatch::write(const std::string& path, std::span<const std::byte> bytes) {
  watch(folder_of(path));
  AtomicFile file(path, files_);
  file.write(bytes);
  file.publish();
}

void FileBatch::watch(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  if (folders_.contains(folder)) return;
  if (!is_folder(folder, files_)) make_folders(folder, files_);
  const int descriptor = repeated([&] { return files_.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (descriptor < 0) throw_errno("open", folder, -descriptor);
  FileSystem::Status status;
  const int failed = files_.status(descriptor, status);
  if (failed < 0 || !disks_.emplace(status.device, descriptor).second) files_.close(descriptor);
  if (failed < 0) throw_errno("inspect", folder, -failed);
  folders_.insert(folder);
}

void FileBatch::settle() {
  const std::lock_guard lock(mutex_);
  for (const auto& [disk, descriptor] : disks_)
    if (const int failed = files_.sync_all(descriptor); failed < 0)
      throw_errno("sync the disk of", *folders_.begin(), -failed);
  folders_.clear();
  for (const auto& [disk, descriptor] : disks_) files_.close(descriptor);
  disks_.clear();
}

void write_file_atomically(const std::string& path, const std::string& text, FileSystem& files) {
  AtomicFile file(path, files);
  file.write(text);
  file.commit();
}

[[noreturn]] static void refuse_folder(const std::string& folder, int failed) {
  if (failed == EEXIST) throw IoError("cannot make the folder " + folder + ": it is a file; name another folder");
  throw_errno("make folder", folder, failed);
}

void make_folders(const std::string& path, FileSystem& files) {
  std::string whole = path;
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  for (size_t end = 0; end != std::string::npos;) {
    end = whole.find('/', end + 1);
    const std::string folder = whole.substr(0, end);
    if (folder.empty() || folder.ends_with('/')) continue;
    const bool there = is_folder(folder, files);
    // Another process may make it between the look and the attempt.
    if (!there)
      if (const int failed = files.make_folder(folder, 0750);
          failed < 0 && !(failed == -EEXIST && is_folder(folder, files)))
        refuse_folder(folder, -failed);
    if (there && end != std::string::npos) continue;
    try {  // the last one even if it was there: who made it may have been killed before this
      sync_folder(folder_of(folder), files);
    } catch (const PermissionError&) {
    }
  }
}

}  // namespace dtrain
