#include "dtrain/study/child_job.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// In the new process, which is a copy of this one without its other threads: system calls alone. Writes errno into
// `failed` if the program cannot be started.
[[noreturn]] void become(char* const* words, pid_t parent, int log, int failed, const cpu_set_t* cores) {
  ::setpgid(0, 0);
  if (cores != nullptr) ::sched_setaffinity(0, sizeof *cores, cores);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it ended before the line above
  for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(log, STDOUT_FILENO) >= 0 &&
      ::dup2(log, STDERR_FILENO) >= 0)
    ::execv(words[0], words);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failed, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ChildJob::ChildJob(const std::vector<std::string>& words, const std::string& log, const std::vector<int>& cores) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int core : cores)
    if (core < CPU_SETSIZE) CPU_SET(core, &allowed);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int output = open_to_append(log);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(output);
    throw_errno("make a pipe for", words.front(), error);
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  const int fork_error = errno;
  if (pid_ == 0) become(arguments.data(), parent, output, ends[1], cores.empty() ? nullptr : &allowed);
  ::close(output);
  ::close(ends[1]);
  int error = pid_ < 0 ? fork_error : 0;
  if (pid_ > 0) {  // the pipe closes without a byte when the program starts
    ssize_t count = 0;
    do count = ::read(ends[0], &error, sizeof error);
    while (count < 0 && errno == EINTR);
    if (count != static_cast<ssize_t>(sizeof error)) error = 0;
  }
  ::close(ends[0]);
  if (error == 0) return;
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  throw_errno("start", words.front(), error);
}

ChildJob::~ChildJob() {
  constexpr auto kPatience = std::chrono::seconds(10);  // mpirun leaves its ranks one second, then kills them
  const auto end = std::chrono::steady_clock::now() + kPatience;
  send(SIGTERM);
  while (!ended() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (ended()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildJob::ended() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) code_ = code_of(status);
  return code_;
}

void ChildJob::send(int signal_number) const {
  if (!code_) ::kill(pid_, signal_number);
}

}  // namespace dtrain
