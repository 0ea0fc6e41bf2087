#include "dtrain/optim/loss_watch.hpp"

#include <algorithm>
#include <cmath>

namespace dtrain {

std::optional<double> LossWatch::note(double loss, double frequencies_loss, int64_t steps_per_epoch) {
  if (std::isnan(first)) first = loss;
  sum += loss;
  if (++steps < std::min(kMostSteps, steps_per_epoch)) return std::nullopt;
  const double mean = sum / static_cast<double>(steps);
  sum = 0;
  steps = 0;
  const double start = std::max(first, frequencies_loss);
  return start > 0 && mean > kFactor * start ? std::optional(mean) : std::nullopt;
}

}  // namespace dtrain
