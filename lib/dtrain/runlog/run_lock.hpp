#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dtrain/io/files/held_folder.hpp"

namespace dtrain {

/// One job in a run folder, or in the output of dtrain predict: an advisory lock (flock) on FOLDER/.lock, held by rank
/// 0 while its process lives. The kernel releases it when the process ends, however it ends. The file's text (host,
/// process and job) is for people, and marks whose folder it is (is_mark).
///
/// The folder is held open with it: what is written through files() lands in the folder that was locked, or nowhere,
/// whatever happens to its path. Nobody else may read the file (0600): whoever can open it can lock it.
class RunLock {
 public:
  /// What the folder is for.
  struct Kind {
    std::string_view mark;     ///< what the file begins with
    std::string_view doing;    ///< "training in"
    std::string_view options;  ///< that choose another folder
  };
  static constexpr Kind kTraining{"dtrain run folder, ", "training in", "--run-dir or name"};
  static constexpr Kind kPrediction{"dtrain prediction, ", "predicting into", "--output"};

  /// Called between two attempts at a lock that another holds, with the seconds since the first one. False: give up.
  using Patience = std::function<bool(double waited_s)>;
  /// Sleeps a little, up to 5 s in all: how long the processes of an ended job may take to disappear.
  static bool wait_a_little(double waited_s);

  /// Who this process is, for people: "process 4711 on node17, Slurm job 12, since 2026-…".
  static std::string this_process();

  /// Takes the lock of the existing folder for `holder`, one line for people (this_process()). Waits
  /// with `patience` for a holder that is about to end. Throws ConfigError naming the holder if it stays, and like
  /// throw_errno when the file cannot be created. On file systems without locks the lock is not held.
  RunLock(const std::string& folder, const std::string& holder, const Patience& patience = wait_a_little,
          const Kind& kind = kTraining);
  ~RunLock();  ///< writes into the file that nobody holds it, and releases it
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// False if the file system has no locks: then nothing keeps a second job out.
  bool held() const { return held_; }
  /// Who held it before and ended without releasing it; "" = nobody.
  const std::string& left_by() const { return left_by_; }

  /// The folder that was locked. Lives as long as this object.
  HeldFolder& files() { return *folder_; }
  /// True while the folder's path leads to this lock: false if the folder or its .lock was removed, moved or replaced.
  /// May be called from any thread.
  bool stands() const;
  /// What happened to the folder if stands() is false, one clause: "was removed", "was moved to …".
  std::string what_happened() const;

  /// Whether what a .lock holds was written by this class for such a folder, by this or an earlier version.
  static bool is_mark(const std::string& text, const Kind& kind = kTraining);

 private:
  std::string path_;
  std::string mark_;
  std::unique_ptr<HeldFolder> folder_;
  int descriptor_ = -1;
  bool held_ = false;
  std::string left_by_;
};

}  // namespace dtrain
