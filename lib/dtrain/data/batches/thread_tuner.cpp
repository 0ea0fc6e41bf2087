#include "dtrain/data/batches/thread_tuner.hpp"

#include <algorithm>
#include <utility>

namespace dtrain {

bool ThreadTuner::try_threads(int threads, double rate) {
  if (threads == threads_) {
    settled_ = true;
    return false;
  }
  before_ = std::exchange(threads_, threads);
  rate_ = rate;
  return true;
}

bool ThreadTuner::go_back() {
  threads_ = before_;
  settled_ = true;
  return true;
}

void ThreadTuner::begin_window() {
  batches_ = 0;
  waited_s_ = passed_s_ = 0;
}

void ThreadTuner::settle_at(int threads) {
  threads_ = threads;
  settled_ = true;
}

bool ThreadTuner::note(double waited_s, double passed_s) {
  if (settled_) return false;
  waited_s_ += waited_s;
  passed_s_ += passed_s;
  if (++batches_ < kWindow) return false;
  const double share = passed_s_ > 0 ? waited_s_ / passed_s_ : 0;
  const double rate = passed_s_ > 0 ? batches_ / passed_s_ : 0;
  begin_window();
  if (threads_ > before_ && before_ > 0 && rate < kWorth * rate_) return go_back();
  if (threads_ < before_ && share > kLittle) return go_back();
  if (share > kMuch) return try_threads(std::min(most_, threads_ + (threads_ + 1) / 2), rate);
  if (share < kLittle && threads_ >= before_ && before_ > 0) settled_ = true;  // grown to what is needed
  if (share < kLittle && !settled_) return try_threads(std::max(1, threads_ - 1), rate);
  settled_ = true;
  return false;
}

}  // namespace dtrain
