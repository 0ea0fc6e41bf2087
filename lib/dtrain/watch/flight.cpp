#include "dtrain/watch/flight.hpp"

#include <chrono>

namespace dtrain {

using Clock = std::chrono::steady_clock;

void FlightRecorder::note(bool is_sum, Section section, int64_t step, int64_t sums) {
  Entry& entry = entries_[next_.fetch_add(1, std::memory_order_relaxed) % kEvents];
  entry.when.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  entry.step.store(step, std::memory_order_relaxed);
  entry.sums.store(sums, std::memory_order_relaxed);
  entry.what.store(is_sum ? -1 : static_cast<int32_t>(section), std::memory_order_relaxed);
}

std::vector<FlightRecord::Event> FlightRecorder::recent() const {
  const auto now = Clock::now().time_since_epoch();
  const uint64_t end = next_.load();
  std::vector<FlightRecord::Event> events;
  for (uint64_t i = end < kEvents ? 0 : end - kEvents; i < end; ++i) {
    const Entry& entry = entries_[i % kEvents];
    const int32_t what = entry.what.load();
    const auto ago = std::chrono::duration<double>(now - Clock::duration(entry.when.load()));
    events.push_back({ago.count(), what < 0 ? "all-reduce begins" : name_of(static_cast<Section>(what)),
                      entry.step.load(), entry.sums.load()});
  }
  return events;
}

}  // namespace dtrain
