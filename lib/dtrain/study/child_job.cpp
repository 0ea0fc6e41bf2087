#include "dtrain/study/child_job.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/// What the new process becomes, laid out before there is one.
struct Becoming {
  std::vector<char*> words, environment;  // each ended by null
  pid_t parent = 0;
  int output = -1;
  int failed = -1;                   // gets errno if the program cannot be started
  const cpu_set_t* cores = nullptr;  // null: as this process
  bool expendable = false;
};

void die_first() {
  constexpr std::string_view kFirst = "1000";
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, kFirst.data(), kFirst.size());
  ::close(file);
}

// In the new process, which is a copy of this one without its other threads: system calls alone.
[[noreturn]] void become(const Becoming& it) {
  ::setpgid(0, 0);
  if (it.cores != nullptr) ::sched_setaffinity(0, sizeof *it.cores, it.cores);
  ::prctl(PR_SET_PDEATHSIG, it.expendable ? SIGKILL : SIGTERM);
  if (::getppid() != it.parent) ::_exit(127);  // it ended before the line above
  if (it.expendable) die_first();
  for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0 && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(it.output, STDOUT_FILENO) >= 0 &&
      ::dup2(it.output, STDERR_FILENO) >= 0)
    ::execve(it.words[0], it.words.data(), it.environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(it.failed, &error, sizeof error);
  ::_exit(127);
}

std::vector<char*> environment_without(const std::vector<std::string>& beginnings) {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::none_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& one) { return std::string_view(*variable).starts_with(one); }))
      kept.push_back(*variable);
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

ChildJob::ChildJob(const std::vector<std::string>& words, const std::string& log, const Options& options) {
  const int output = open_to_append(log);
  try {
    start(words, output, options);
  } catch (...) {
    ::close(output);
    throw;
  }
  ::close(output);
}

ChildJob::ChildJob(const std::vector<std::string>& words, int output, const Options& options) {
  start(words, output, options);
}

void ChildJob::start(const std::vector<std::string>& words, int output, const Options& options) {
  expendable_ = options.expendable;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int core : options.cores)
    if (core < CPU_SETSIZE) CPU_SET(core, &allowed);
  Becoming it;
  for (const std::string& word : words) it.words.push_back(const_cast<char*>(word.c_str()));
  it.words.push_back(nullptr);
  it.environment = environment_without(options.without);
  it.parent = ::getpid();
  it.output = output;
  it.cores = options.cores.empty() ? nullptr : &allowed;
  it.expendable = options.expendable;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("make a pipe for", words.front(), errno);
  it.failed = ends[1];
  pid_ = ::fork();
  const int fork_error = errno;
  if (pid_ == 0) become(it);
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
  send(expendable_ ? SIGKILL : SIGTERM);
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
