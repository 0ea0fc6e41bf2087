#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"

namespace dtrain::test {

/// What goes wrong, at which call (counted from 1 since the last plan()).
struct Fault {
  enum class Kind {
    none,
    kill,         ///< the process dies before the call: from here on nothing happens and every call fails
    error,        ///< the call fails with `error_number`
    late_error,   ///< the call does its work and then fails
    short_write,  ///< a write takes half of the bytes (nothing happens at other calls)
  };
  Kind kind = Kind::none;
  int error_number = 0;
  int64_t at = 0;
  bool stays = false;  ///< every later call fails too
};

/// Files by path, as they are on a disk.
using DiskImage = std::map<std::string, std::string>;

/// A disk in memory, for tests of what is left of files when something goes wrong. It knows what a power cut may leave:
/// bytes and names that were not synced may be there or not, each independently and in any order.
///
/// After a failed sync the kernel may have dropped what should have been written, and report the next sync as a success
/// ("fsyncgate"): here such bytes, and such names of files, stay in doubt for ever. (A new folder can be synced again,
/// since nobody can make it twice.) `violations` lists uses of a file after its sync has failed, which a correct writer
/// never makes.
class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem() { add(true); }
  /// A disk that holds these files and their folders, all synced.
  explicit MemoryFileSystem(const DiskImage& image);

  void plan(const Fault& fault) {
    fault_ = fault;
    calls_ = 0;
    hit_ = false;
  }
  int64_t calls() const { return calls_; }                 ///< since plan()
  bool hit() const { return hit_; }                        ///< the planned fault has happened
  const std::string& hit_call() const { return called_; }  ///< the call at which it last happened, such as "rename"
  bool dead() const { return dead_; }
  /// Called before each call, to look at the disk.
  std::function<void()> before_call;
  std::vector<std::string> violations;

  /// The disk as processes see it.
  DiskImage image() const;
  /// Calls `see` with every disk that a power cut at this moment may leave, at most `most` of them (evenly drawn where
  /// there are more). Returns how many those were.
  int64_t power_cuts(int64_t most, const std::function<void(const DiskImage&)>& see) const;

  int open(const std::string& path, int flags, unsigned mode) override;
  ssize_t read(int descriptor, std::span<std::byte> out) override;
  ssize_t read_at(int descriptor, int64_t offset, std::span<std::byte> out) override;
  ssize_t write(int descriptor, std::span<const std::byte> bytes) override;
  int sync(int descriptor) override;
  int sync_all(int descriptor) override;
  int close(int descriptor) override;
  int status(int descriptor, Status& out) override;
  int status(const std::string& path, bool follow_link, Status& out) override;
  int rename(const std::string& from, const std::string& to) override;
  int unlink(const std::string& path) override;
  int make_folder(const std::string& path, unsigned mode) override;
  int list(const std::string& folder, std::vector<std::string>& names) override;

 private:
  static constexpr int kNone = -1;
  using Entries = std::map<std::string, int>;

  struct Inode {
    bool is_folder = false;
    bool in_doubt = false;  // a sync of it has failed
    std::string bytes;      // as seen
    std::string durable;    // at the last sync
    bool dirty = false;
    size_t last_write = 0;  // where the last write began
    Entries entries;        // of a folder, as seen
    Entries durable_entries;
  };
  /// One change of a folder that is not on the disk yet: `name` now means `inode`, or nothing.
  struct Change {
    int folder;
    std::string name;
    int inode;
    bool in_doubt = false;
  };
  struct Open {
    int inode;
    size_t at = 0;
    bool writable = false;
  };

  int begin(const char* call, bool& late);
  void sync_failed(int inode);
  void settle(int inode);
  int find(const std::string& path) const;
  int parent_of(const std::string& path, std::string& name) const;
  bool names_folder(const Change& change) const;
  void change(int folder, const std::string& name, int inode);
  int add(bool is_folder);
  void tell(int inode, Status& out) const;
  std::vector<std::string> contents_after_cut(const Inode& inode) const;
  void lay_out(const std::vector<Entries>& folders, int folder, const std::string& path,
               std::vector<std::pair<std::string, int>>& files) const;

  std::vector<Inode> inodes_;  // 0 is the root
  std::vector<Change> changes_;
  std::map<int, Open> open_;
  int next_descriptor_ = 3;
  Fault fault_;
  int64_t calls_ = 0;
  bool hit_ = false;
  bool dead_ = false;
  std::string called_;
};

}  // namespace dtrain::test
