#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

/// Seconds since construction, on the monotonic clock: a wall clock that jumps has no effect.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  void restart() { start_ = std::chrono::steady_clock::now(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A length of training as users write it: `400 steps`, `1.5 epochs`, `30 s`, `10 minutes`, `3h55m`.
struct Duration {
  enum class Unit { steps, epochs, seconds };
  double amount = 0;
  Unit unit = Unit::epochs;
  bool operator==(const Duration&) const = default;

  /// In updates; precondition: not seconds.
  double in_steps(int64_t steps_per_epoch) const {
    return unit == Unit::epochs ? amount * static_cast<double>(steps_per_epoch) : amount;
  }
  /// As the user may write it again: "1 epoch", "400 steps", "90 s".
  std::string text() const;
};

/// Nothing when `text` is not a duration (a unit is required; the amount is finite and not negative).
std::optional<Duration> parse_duration(std::string_view text);

/// 45600 s as "12:40:00".
std::string clock_text(double seconds);

/// Now, in UTC, as 2026-01-31T12:40:00Z: for people and logs, never for decisions.
std::string utc_now();

}  // namespace dtrain
