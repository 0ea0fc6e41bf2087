#pragma once
#include <optional>
#include <string>

#include "dtrain/metrics/curve.hpp"

namespace dtrain {

/// How the threshold of an output is chosen from its curve over a part.
struct ThresholdRule {
  enum class Kind {
    youden,    ///< largest sensitivity + specificity (Youden, Cancer 3:32–35, 1950)
    at_least,  ///< the highest threshold whose sensitivity is at least `least`
  };
  Kind kind = Kind::youden;
  double least = 0;

  /// "youden" or "sensitivity=0.95", above 0 and up to 1. Nothing for anything else.
  static std::optional<ThresholdRule> of(const std::string& text);
  /// What of() reads, for help and messages.
  static std::string forms();
};

/// The threshold: a score of the part; samples with this score or a higher one are called positive. Of several equally
/// good ones the highest. Nothing without positives, and with `youden` without negatives.
std::optional<double> threshold_by(const ThresholdRule& rule, const Curve& curve);

}  // namespace dtrain
