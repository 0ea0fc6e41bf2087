#include <algorithm>
#include <iterator>

#include "dtrain/metrics/options.hpp"

namespace dtrain {

// Each is defined in its own file.
extern const Metric kAccuracy, kAuroc, kIou, kIouImage, kDice, kAveragePrecision, kSensitivity, kSpecificity,
    kPrecision, kF1, kEce, kBrier, kHausdorff95, kKappa, kKappaQuadratic;

const Metrics& all_metrics() {
  static const Metrics all = {&kAccuracy,    &kAuroc,       &kIou,           &kIouImage, &kDice, &kAveragePrecision,
                              &kSensitivity, &kSpecificity, &kPrecision,     &kF1,       &kEce,  &kBrier,
                              &kHausdorff95, &kKappa,       &kKappaQuadratic};
  return all;
}

const Metrics& epoch_metrics() {
  static const Metrics of_epochs = [] {
    Metrics some;
    std::ranges::copy_if(all_metrics(), std::back_inserter(some), &Metric::of_epochs);
    return some;
  }();
  return of_epochs;
}

}  // namespace dtrain
