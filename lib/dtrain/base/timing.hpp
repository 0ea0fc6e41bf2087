#pragma once
#include <array>
#include <cstdint>

namespace dtrain {

/// What one process spent on training in an epoch, or in a part of one: seconds of the training thread, and bytes. All
/// seconds but epoch_seconds are shares of it, which add up to about that.
struct Timing {
  double epoch_seconds = 0;  ///< in training steps; evaluation is not in it
  double data_wait_s = 0;    ///< waiting for the loader
  double allreduce_s = 0;    ///< waiting for sums after backward was done, without imbalance_s: what is not hidden
  double compute_s = 0;      ///< forward and backward
  double update_s = 0;       ///< the part of the update that backward did not hide
  double imbalance_s = 0;    ///< waiting for ranks that came later: the mean over ranks, and so the same on each
  int64_t bytes_read = 0;    ///< from files
};

/// A field of seconds, by the name that it has in checkpoints, epochs.csv and metrics.jsonl.
struct TimingField {
  const char* name;
  double Timing::*seconds;
};
/// Code that adds, writes or reads a Timing loops over these.
inline constexpr std::array<TimingField, 6> kTimingFields = {{{"data_wait_s", &Timing::data_wait_s},
                                                              {"allreduce_s", &Timing::allreduce_s},
                                                              {"compute_s", &Timing::compute_s},
                                                              {"update_s", &Timing::update_s},
                                                              {"imbalance_s", &Timing::imbalance_s},
                                                              {"epoch_seconds", &Timing::epoch_seconds}}};

/// The name of that field.
constexpr const char* timing_name(double Timing::*seconds) {
  for (const TimingField& field : kTimingFields)
    if (field.seconds == seconds) return field.name;
  return "";
}

inline Timing& operator+=(Timing& sum, const Timing& part) {
  for (const TimingField& field : kTimingFields) sum.*field.seconds += part.*field.seconds;
  sum.bytes_read += part.bytes_read;
  return sum;
}

inline Timing operator+(Timing one, const Timing& other) { return one += other; }

/// The mean of `count` timings whose sum this is.
inline Timing operator/(Timing sum, int64_t count) {
  for (const TimingField& field : kTimingFields) sum.*field.seconds /= static_cast<double>(count);
  sum.bytes_read /= count;
  return sum;
}

}  // namespace dtrain
