#include "dtrain/metrics/threshold_rule.hpp"

#include <charconv>
#include <cmath>

#include "dtrain/metrics/options.hpp"

namespace dtrain {

extern const Metric kSensitivity;  // whose name the second rule begins with

std::optional<ThresholdRule> ThresholdRule::of(const std::string& text) {
  if (text == "youden") return ThresholdRule{};
  const std::string beginning = kSensitivity.name + "=";
  if (!text.starts_with(beginning)) return std::nullopt;
  ThresholdRule rule{Kind::at_least, 0};
  const char* first = text.data() + beginning.size();
  const char* last = text.data() + text.size();
  const auto [end, failed] = std::from_chars(first, last, rule.least);
  if (failed != std::errc() || end != last || !(rule.least > 0 && rule.least <= 1)) return std::nullopt;
  return rule;
}

std::string ThresholdRule::forms() { return "youden or " + kSensitivity.name + "=0.95"; }

std::optional<double> threshold_by(const ThresholdRule& rule, const Curve& curve) {
  const bool youden = rule.kind == ThresholdRule::Kind::youden;
  if (curve.positives == 0 || (youden && curve.negatives == 0)) return std::nullopt;
  const auto positives = static_cast<double>(curve.positives);
  const auto negatives = static_cast<double>(curve.negatives);
  std::optional<double> chosen;
  double most = -1;
  for (const CurvePoint& point : curve.points) {
    if (std::isinf(point.threshold)) continue;
    const double found = static_cast<double>(point.true_positives);
    if (!youden) {
      if (found / positives >= rule.least) return point.threshold;
      continue;
    }
    // In whole numbers, so that equally good points are equal.
    const double index = found * negatives - static_cast<double>(point.false_positives) * positives;
    if (chosen && index <= most) continue;
    most = index;
    chosen = point.threshold;
  }
  return chosen;
}

}  // namespace dtrain
