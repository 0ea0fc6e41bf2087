#include "dtrain/dist/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "dtrain/base/text.hpp"

namespace dtrain {

using Clock = std::chrono::steady_clock;

const char* section_name(Section section) {
  switch (section) {
    case Section::start:
      return "start-up";
    case Section::load:
      return "data loading";
    case Section::compute:
      return "forward and backward";
    case Section::reduce:
      return "all-reduce";
    case Section::update:
      return "update";
    case Section::evaluate:
      return "evaluation";
    case Section::save:
      return "saving";
    case Section::finish:
      return "finishing";
  }
  return "?";
}

struct Watchdog::Impl {
  std::atomic<Clock::rep> last{Clock::now().time_since_epoch().count()};
  std::atomic<int> section{0};
  std::atomic<int64_t> step{0};
  std::mutex mutex;
  std::condition_variable leave;
  bool leaving = false;
  std::thread thread;

  void watch(double limit_s, const std::function<void(const std::string&)>& on_stall) {
    const auto pause = std::chrono::duration<double>(std::min(1.0, limit_s / 4));
    std::unique_lock lock(mutex);
    while (!leave.wait_for(lock, pause, [&] { return leaving; })) {
      const double still =
          std::chrono::duration<double>(Clock::now() - Clock::time_point(Clock::duration(last.load()))).count();
      if (still < limit_s) continue;
      on_stall("stalled " + fixed(still, 0) + " s in " + section_name(static_cast<Section>(section.load())) +
               " (step " + std::to_string(step.load()) +
               "), more than distributed.watchdog.abort allows; the same command goes on from the newest checkpoint");
      return;
    }
  }
};

Watchdog::Watchdog(double limit_s, std::function<void(const std::string&)> on_stall) : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([this, limit_s, on_stall = std::move(on_stall)] { impl_->watch(limit_s, on_stall); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->leaving = true;
    impl_->leave.notify_all();
  }
  impl_->thread.join();
}

void Watchdog::enter(Section section, int64_t step) {
  impl_->section.store(static_cast<int>(section));
  impl_->step.store(step);
  impl_->last.store(Clock::now().time_since_epoch().count());
}

}  // namespace dtrain
