#pragma once
#include <string>

namespace dtrain {

/// One job in a run folder: an advisory lock (flock) on RUN/.lock, held by rank 0 while its process lives. The kernel
/// lets go of it when the process ends, however it ends; what the file says is for people: host, process and job.
class RunLock {
 public:
  /// Takes the lock of the folder, which is there, for `holder`, one line for people: "process 4711 on node17". Waits
  /// up to kPatience for a holder that is about to end. Throws ConfigError naming the holder that stays, and like
  /// throw_errno when the file cannot be made. On file systems without locks the lock is not held.
  RunLock(const std::string& folder, const std::string& holder);
  static constexpr double kPatience = 5;  ///< seconds: what the processes of an ended job may take to be gone
  ~RunLock();                             ///< says in the file that nobody holds it, and lets go
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// False where the file system has no locks: nothing keeps a second job out then.
  bool held() const { return held_; }
  /// Who held it before and ended without a word; "" = nobody.
  const std::string& left_by() const { return left_by_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
  std::string left_by_;
};

}  // namespace dtrain
