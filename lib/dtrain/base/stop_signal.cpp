#include "dtrain/base/stop_signal.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace dtrain {

static_assert(std::atomic<int>::is_always_lock_free);
static std::atomic<int> pending{0};
static std::atomic<int> interrupts{0};

extern "C" {
static void on_stop_signal(int signal_number) {
  if (signal_number == SIGINT && interrupts.fetch_add(1) > 0) _exit(128 + SIGINT);
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
}

void ignore_write_signals() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

StopRequest pending_stop_request() { return static_cast<StopRequest>(pending.load()); }

StopRequest take_stop_request() {
  int save = static_cast<int>(StopRequest::save);
  if (pending.compare_exchange_strong(save, 0)) return StopRequest::save;
  return pending_stop_request();
}

}  // namespace dtrain
