#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"

namespace dtrain {

// Any argument `files` must outlive the call or the object that it is given to.

/// The whole file. Throws like throw_errno ("cannot open PATH: …"), DataError if it is larger than `max_bytes` or no
/// regular file: nothing waits for what a pipe or a device may give.
std::vector<std::byte> read_file(const std::string& path, int64_t max_bytes = int64_t{1} << 40,
                                 FileSystem& files = real_file_system());

/// The same as text.
std::string read_text(const std::string& path, int64_t max_bytes = int64_t{1} << 32);

/// The first `bytes` bytes, fewer if the file is shorter. Throws as read_file().
std::vector<std::byte> read_file_start(const std::string& path, int64_t bytes);

/// Size of a regular file in bytes. Throws like throw_errno, DataError for anything else.
int64_t file_bytes(const std::string& path);

/// When the file's content was last changed, in nanoseconds since 1970; links are followed. Throws like throw_errno.
int64_t changed_at(const std::string& path);

/// Whether there is anything at `path`, links followed. Throws like throw_errno if that cannot be determined.
bool is_there(const std::string& path, FileSystem& files = real_file_system());

/// A descriptor that appends to the file, which is made (0640 less the umask) where there is none; the caller closes
/// it. It reads, too. A link at `path` is not followed. Throws like throw_errno.
int open_to_append(const std::string& path, FileSystem& files = real_file_system());

/// Appends to the file as open_to_append() finds it. After it returns the bytes survive a power cut, once the file's
/// folder is synced. Throws like throw_errno; some of the bytes may then be in the file.
void append_to_file(const std::string& path, const std::string& text, FileSystem& files = real_file_system());

/// Writes a file that exists completely or not at all: PATH.tmp → write(2) → fsync → close → rename → fsync of the
/// folder. Whatever fails before the rename, an older file of that name stays as it was and the temporary one is
/// removed. An error only in the last step (fsync of the folder) leaves the complete new file in place of the old one.
/// Mode 0640 less the umask. A link at PATH is replaced, not followed; a PATH.tmp left by a killed process is removed.
///
/// A failed write or fsync is final: the kernel may have dropped the data, and repeating the call may then succeed
/// without it (PostgreSQL's "fsyncgate", 2018). The object is then unusable; the caller starts a new one.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, FileSystem& files = real_file_system());  ///< throws like throw_errno
  ~AtomicFile();  ///< removes the temporary file unless committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes all bytes: short writes and EINTR are continued. Throws like throw_errno ("cannot write PATH: …").
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text);
  /// Publishes the file. After it returns the file survives a power cut. Throws like throw_errno, IoError if another
  /// process has begun to write the same file.
  void commit();

  /// The same without waiting for the disk, for FileBatch: processes see the file, complete, and a power cut may take
  /// it or leave it empty.
  void publish();

 private:
  [[noreturn]] void give_up(const std::string& doing, int error_number);
  void discard();
  bool temporary_is_ours() const;

  FileSystem& files_;
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

/// Many small files, each published at once and complete (AtomicFile), which survive a power cut together: after
/// settle(). That makes one call (syncfs) for the disk, in place of two (fsync) for each file, and waits for what
/// others write to that disk, too. Several threads may use it.
class FileBatch {
 public:
  explicit FileBatch(FileSystem& files = real_file_system()) : files_(files) {}
  ~FileBatch();
  FileBatch(const FileBatch&) = delete;
  FileBatch& operator=(const FileBatch&) = delete;

  /// Makes the folder where there is none. Throws as AtomicFile and make_folders().
  void write(const std::string& path, std::span<const std::byte> bytes);
  /// After it returns all that was written survives a power cut. Throws like throw_errno; what a power cut then leaves
  /// of the files is not known.
  void settle();

 private:
  void watch(const std::string& folder);

  FileSystem& files_;
  std::mutex mutex_;
  std::set<std::string> folders_;
  std::map<uint64_t, int> disks_;  // a descriptor on each, opened before the first file is written: it gets the errors
};

/// AtomicFile in one call.
void write_file_atomically(const std::string& path, const std::string& text, FileSystem& files = real_file_system());

/// Makes what was renamed or created in `folder` survive a power cut. Some network file systems cannot do it and return
/// EINVAL: they order such operations themselves. Throws like throw_errno.
void sync_folder(const std::string& folder, FileSystem& files = real_file_system());

/// Creates the folder and its parents, mode 0750 less the umask; existing ones stay as they are. After it
/// returns the folder survives a power cut: its parent and the parents of what was made are synced (one that may not be
/// opened, mode -wx, is left to itself). Throws like throw_errno.
void make_folders(const std::string& path, FileSystem& files = real_file_system());

}  // namespace dtrain
