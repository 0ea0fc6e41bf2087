#include "dtrain/metrics/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const Metric kAccuracy, kAuroc, kIou, kIouImage, kDice, kAveragePrecision;

const Metrics& all_metrics() {
  static const Metrics all = {&kAccuracy, &kAuroc, &kIou, &kIouImage, &kDice, &kAveragePrecision};
  return all;
}

}  // namespace dtrain
