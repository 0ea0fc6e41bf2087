#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// A process that this one has started, in a process group of its own, so that Ctrl-C on the terminal reaches only this
/// one. It gets TERM when the thread that started it ends, however that happens; mpirun then ends its ranks.
///
/// Its input is /dev/null; what it prints is appended to a file.
class ChildJob {
 public:
  struct Options {
    std::vector<int> cores = {};            ///< that it and its children may run on; empty = all of this process
    std::vector<std::string> without = {};  ///< it does not get variables of the environment that begin so
    /// It has nothing to save and no children: it is ended by KILL, also when this process ends, and where memory runs
    /// out the kernel takes it first.
    bool expendable = false;
  };
  /// `words`: the path of a program, which is not looked for on PATH, and its arguments. Throws like throw_errno when
  /// the log cannot be opened, no process can be made or the program cannot be started.
  ChildJob(const std::vector<std::string>& words, const std::string& log, const Options& options);
  ChildJob(const std::vector<std::string>& words, const std::string& log) : ChildJob(words, log, Options()) {}
  /// The same with an open file in place of the log, which stays the caller's.
  ChildJob(const std::vector<std::string>& words, int output, const Options& options);
  /// Ends it if it still runs, by TERM, or KILL 10 s later, and waits for it.
  ~ChildJob();
  ChildJob(const ChildJob&) = delete;
  ChildJob& operator=(const ChildJob&) = delete;

  /// Its exit code once it has ended, as a shell has it: 128 + N when signal N ended it. Returns at once.
  std::optional<int> ended();
  void send(int signal_number) const;
  pid_t pid() const { return pid_; }

 private:
  void start(const std::vector<std::string>& words, int output, const Options& options);

  pid_t pid_ = -1;
  bool expendable_ = false;
  std::optional<int> code_;
};

}  // namespace dtrain
