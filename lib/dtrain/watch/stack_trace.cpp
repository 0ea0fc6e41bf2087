#include "dtrain/watch/stack_trace.hpp"

#include <execinfo.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "dtrain/base/time.hpp"

namespace dtrain {
namespace {

constexpr int kMostFrames = 64;
constexpr int kHandlerFrames = 2;  // the handler's own, and the kernel's call of it

struct Capture {
  std::atomic<bool> asked{false};  // set before the signal: a thread that reads true also sees the rest
  void* frames[kMostFrames];
  int count = 0;
  std::atomic<bool> done{false};
};

int stack_signal() { return SIGRTMIN + 5; }

// The buffer comes with the signal, so nothing static is needed. backtrace() takes no lock once its library is loaded.
void answer(int /*number*/, siginfo_t* info, void* /*context*/) {
  const int before = errno;
  if (info->si_code == SI_QUEUE && info->si_value.sival_ptr != nullptr) {
    auto* capture = static_cast<Capture*>(info->si_value.sival_ptr);
    if (capture->asked.load()) capture->count = backtrace(capture->frames, kMostFrames);
    capture->done.store(true);
  }
  errno = before;
}

}  // namespace

void install_stack_signal() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads its library now, while memory may be allocated
  struct sigaction action {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(stack_signal(), &action, nullptr);
}

std::vector<std::string> stack_of(pthread_t thread, double patience_s) {
  auto* capture = new Capture();
  capture->asked.store(true);
  sigval value{};
  value.sival_ptr = capture;
  if (pthread_sigqueue(thread, stack_signal(), value) != 0) {
    delete capture;
    return {};
  }
  const Stopwatch waited;
  while (!capture->done.load()) {
    if (waited.seconds() > patience_s) return {};  // the buffer stays: the answer may still come
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  std::vector<std::string> lines;
  if (char** texts = backtrace_symbols(capture->frames, capture->count); texts != nullptr) {
    for (int i = kHandlerFrames; i < capture->count; ++i) lines.emplace_back(texts[i]);
    std::free(static_cast<void*>(texts));
  }
  delete capture;
  return lines;
}

}  // namespace dtrain
