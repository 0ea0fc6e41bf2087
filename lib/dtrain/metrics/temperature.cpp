#include "dtrain/metrics/temperature.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace dtrain {
namespace {

// Of the log loss, summed, by 1/T: it is convex.
struct Slope {
  double first = 0;
  double second = 0;
};

void add_labels(std::span<const double> logits, std::span<const float> labels, double inverse, Slope& slope) {
  for (size_t k = 0; k < logits.size(); ++k) {
    if (std::isnan(labels[k])) continue;
    const double z = logits[k];
    const double p = 1 / (1 + std::exp(-inverse * z));
    slope.first += z * (p - static_cast<double>(labels[k]));
    slope.second += z * z * p * (1 - p);
  }
}

void add_classes(std::span<const double> logits, std::span<const float> labels, double inverse, Slope& slope) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  double mean = 0;
  double square = 0;
  double of_label = 0;
  for (size_t k = 0; k < logits.size(); ++k) {
    const double z = logits[k] - top;
    const double weight = std::exp(inverse * z);
    sum += weight;
    mean += weight * z;
    square += weight * z * z;
    if (labels[k] == 1) of_label = z;
  }
  mean /= sum;
  slope.first += mean - of_label;
  slope.second += square / sum - mean * mean;
}

Slope slope_at(const Predictions& p, double inverse) {
  Slope slope;
  for (size_t i = 0; i < p.samples(); ++i) {
    const auto logits = std::span(p.logits).subspan(i * p.outputs, p.outputs);
    const auto labels = std::span(p.labels).subspan(i * p.outputs, p.outputs);
    (p.task == Task::multiclass ? add_classes : add_labels)(logits, labels, inverse, slope);
  }
  return slope;
}

}  // namespace

double mean_log_loss(const Predictions& p, double temperature) {
  double sum = 0;
  double count = 0;
  for (size_t i = 0; i < p.samples(); ++i) {
    const auto logits = std::span(p.logits).subspan(i * p.outputs, p.outputs);
    if (p.task == Task::multiclass) {
      const double top = *std::max_element(logits.begin(), logits.end());
      double all = 0;
      for (size_t k = 0; k < p.outputs; ++k) {
        all += std::exp((logits[k] - top) / temperature);
        if (p.label(i, k) == 1) sum -= (logits[k] - top) / temperature;
      }
      sum += std::log(all);
      count += 1;
      continue;
    }
    for (size_t k = 0; k < p.outputs; ++k) {
      const float label = p.label(i, k);
      if (std::isnan(label)) continue;
      const double against = (label == 1 ? -logits[k] : logits[k]) / temperature;  // log(1 + exp(against))
      sum += std::max(against, 0.0) + std::log1p(std::exp(-std::abs(against)));
      count += 1;
    }
  }
  return count > 0 ? sum / count : 0;
}

std::optional<double> fitted_temperature(const Predictions& p) {
  double low = 1 / kMostTemperature;
  double high = 1 / kLeastTemperature;
  if (p.samples() == 0 || !(slope_at(p, low).first < 0) || !(slope_at(p, high).first > 0)) return std::nullopt;
  double inverse = 1;
  for (int i = 0; i < 100; ++i) {  // Newton's steps, and halves where one would leave what is known
    const Slope slope = slope_at(p, inverse);
    (slope.first < 0 ? low : high) = inverse;
    double next = inverse - slope.first / slope.second;
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    if (std::abs(next - inverse) <= 1e-13 * inverse) break;
    inverse = next;
  }
  return 1 / inverse;
}

}  // namespace dtrain
