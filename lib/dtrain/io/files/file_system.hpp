#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

/// The system calls that files are written and read by, one function each: so tests can make each of them fail, and
/// simulate a power cut (tests/support). Paths and descriptors are those of the same object. Each function returns what
/// the call of that name returns, but -errno if it failed, and repeats nothing; the caller decides what an interrupted
/// or short call means.
class FileSystem {
 public:
  /// What is needed of stat(2).
  struct Status {
    bool is_folder = false;
    bool is_file = false;  ///< a regular one
    int64_t bytes = 0;     ///< of a regular file
    uint64_t device = 0;
    uint64_t inode = 0;
  };

  virtual ~FileSystem() = default;
  virtual int open(const std::string& path, int flags, unsigned mode) = 0;
  virtual ssize_t read(int descriptor, std::span<std::byte> out) = 0;
  virtual ssize_t read_at(int descriptor, int64_t offset, std::span<std::byte> out) = 0;  ///< pread(2)
  /// posix_fadvise(2), POSIX_FADV_WILLNEED: begins to read a range ahead. Does not change any file.
  virtual int will_need(int /*descriptor*/, int64_t /*offset*/, int64_t /*bytes*/) { return 0; }
  virtual ssize_t write(int descriptor, std::span<const std::byte> bytes) = 0;
  virtual int sync(int descriptor) = 0;      ///< fsync(2), of a file or a folder
  virtual int sync_all(int descriptor) = 0;  ///< syncfs(2): all of the disk on which it is
  virtual int close(int descriptor) = 0;
  virtual int status(int descriptor, Status& out) = 0;
  virtual int status(const std::string& path, bool follow_link, Status& out) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int unlink(const std::string& path) = 0;
  virtual int make_folder(const std::string& path, unsigned mode) = 0;
  /// Appends the names in a folder, "." and ".." left out, in any order.
  virtual int list(const std::string& folder, std::vector<std::string>& names) = 0;
};

/// For those who make the calls: what a stat call told, and the names in a folder, whose descriptor is closed; 0 or
/// -errno.
FileSystem::Status status_of(const struct stat& found);
int list_open_folder(int descriptor, std::vector<std::string>& names);

/// Opens what should be a regular file for reading: a descriptor, or -errno. The caller then checks what it is; opening
/// a FIFO does not wait for a writer (nor would its reads). A file that another program holds a lease on, as Samba
/// does, is waited for until the kernel takes the lease away.
int open_to_read(const std::string& path, FileSystem& files);

/// The kernel's. Has no state, and lives as long as the program.
FileSystem& real_file_system();

}  // namespace dtrain
