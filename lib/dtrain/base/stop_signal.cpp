#include "dtrain/base/stop_signal.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "dtrain/base/terminal.hpp"

namespace dtrain {

static_assert(std::atomic<int>::is_always_lock_free);
static std::atomic<int> pending{0};
static std::atomic<int> interrupts{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);
static std::atomic<int64_t> term_ns{0};  // on the monotonic clock

static int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

extern "C" {
static void on_stop_signal(int signal_number) {
  if (signal_number == SIGINT && interrupts.fetch_add(1) > 0) {
    remove_bar();  // or the shell's prompt would appear on it
    _exit(128 + SIGINT);
  }
  int64_t none = 0;
  if (signal_number == SIGTERM || signal_number == SIGINT || signal_number == SIGHUP)
    term_ns.compare_exchange_strong(none, now_ns());
  const int wanted = static_cast<int>(signal_number == SIGUSR2 ? StopRequest::save : StopRequest::stop);
  int now = pending.load();
  while (now < wanted && !pending.compare_exchange_weak(now, wanted)) {
  }
}
}

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);  // ignored under nohup: a closed terminal must not stop the run
}

void ignore_write_signals() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

StopRequest pending_stop_request() { return static_cast<StopRequest>(pending.load()); }

std::optional<double> seconds_since_term() {
  const int64_t then = term_ns.load();
  if (then == 0) return std::nullopt;
  return 1e-9 * static_cast<double>(now_ns() - then);
}

StopRequest take_stop_request() {
  int save = static_cast<int>(StopRequest::save);
  if (pending.compare_exchange_strong(save, 0)) return StopRequest::save;
  return pending_stop_request();
}

}  // namespace dtrain
