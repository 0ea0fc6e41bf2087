#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dtrain/io/files/held_folder.hpp"

namespace dtrain {

/// One job in a run folder: an advisory lock (flock) on RUN/.lock, held by rank 0 while its process lives. The kernel
/// lets go of it when the process ends, however it ends. What the file says is for people, host, process and job, and
/// marks the folder as a run's (is_mark).
///
/// The folder is held open with it: what is written through files() lands in the folder that was locked, or nowhere,
/// whatever happens to its name. The file is nobody else's to read (0600): who can open it can lock it.
class RunLock {
 public:
  /// What is done between two tries at a lock that another holds, told the seconds since the first one. False: no more.
  using Patience = std::function<bool(double waited_s)>;
  /// Sleeps a little, up to 5 s in all: what the processes of an ended job may take to be gone.
  static bool wait_a_little(double waited_s);

  /// Takes the lock of the folder, which is there, for `holder`, one line for people: "process 4711 on node17". Waits
  /// with `patience` for a holder that is about to end. Throws ConfigError naming the holder that stays, and like
  /// throw_errno when the file cannot be made. On file systems without locks the lock is not held.
  RunLock(const std::string& folder, const std::string& holder, const Patience& patience = wait_a_little);
  ~RunLock();  ///< says in the file that nobody holds it, and lets go
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// False where the file system has no locks: nothing keeps a second job out then.
  bool held() const { return held_; }
  /// Who held it before and ended without a word; "" = nobody.
  const std::string& left_by() const { return left_by_; }

  /// The folder that was locked. Lives as long as this object.
  HeldFolder& files() { return *folder_; }
  /// True while the folder's name leads to this lock: false where the folder was removed, moved or replaced, or its
  /// .lock was. May be called from any thread.
  bool stands() const;
  /// What became of the folder where it does not stand, one clause: "was removed", "was moved to …".
  std::string what_happened() const;

  /// Whether what a .lock holds was written by this class, of this or an earlier version.
  static bool is_mark(const std::string& text);

 private:
  std::string path_;
  std::unique_ptr<HeldFolder> folder_;
  int descriptor_ = -1;
  bool held_ = false;
  std::string left_by_;
};

}  // namespace dtrain
