#include "dtrain/study/parting.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dtrain/study/median.hpp"
#include "dtrain/study/run_result.hpp"

namespace dtrain {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

double apart(double a, double b) {
  const double larger = std::max(std::abs(a), std::abs(b));
  return std::isnan(a) || std::isnan(b) ? std::nan("") : larger == 0 ? 0 : std::abs(b - a) / larger;
}

}  // namespace

Parting parting_of(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b) {
  Parting parting;
  auto of_b = b.begin();
  for (const StepRecord& of_a : a) {
    while (of_b != b.end() && of_b->step < of_a.step) ++of_b;
    if (of_b == b.end()) break;
    if (of_b->step != of_a.step) continue;
    ++parting.both;
    const double distance = apart(of_a.loss, of_b->loss);
    if (!parting.first && !same_bits(of_a.loss, of_b->loss)) {
      parting.first = of_a.step;
      parting.first_apart = distance;
    }
    parting.same += parting.first ? 0 : 1;
    if (distance > parting.largest_apart) {
      parting.largest = of_a.step;
      parting.largest_apart = distance;
    }
    parting.last = of_a.step;
    parting.last_a = of_a.loss;
    parting.last_b = of_b->loss;
    parting.last_apart = distance;
  }
  return parting;
}

std::optional<BestEpoch> best_epoch(const NumberTable& epochs, const std::string& column, bool larger_is_better) {
  const std::optional<size_t> row = best_row(epochs, {column, larger_is_better});
  if (!row) return std::nullopt;
  return BestEpoch{static_cast<int64_t>(epochs.at(*row, "epoch").value_or(0)), *epochs.at(*row, column),
                   epochs.at(*row, "elapsed_s")};
}

RunTimes times_of(const RunRecord& run) {
  RunTimes times;
  std::vector<double> epochs;
  std::vector<double> evaluations;
  double seconds = 0;
  double samples = 0;
  double steps = 0;
  double waited = 0;
  for (size_t row = 0; row < run.epochs.rows(); ++row) {
    const auto figure = [&](const char* column) { return run.epochs.at(row, column).value_or(0); };
    epochs.push_back(figure("epoch_seconds"));
    seconds += figure("epoch_seconds");
    samples += figure("samples");
    steps += figure("steps");
    waited += figure("data_wait_s");
    if (const auto valid = run.epochs.at(row, "valid_seconds")) evaluations.push_back(*valid);
    times.elapsed_s = run.epochs.at(row, "elapsed_s");
  }
  times.epoch_s = median_of(epochs);
  times.valid_s = median_of(evaluations);
  if (seconds > 0) {
    times.images_per_s = samples / seconds;
    times.data_wait_share = waited / seconds;
    if (steps > 0) times.step_ms = 1000 * seconds / steps;
  }
  std::vector<double> of_steps;
  for (const StepRecord& step : run.steps)
    if (step.seconds) of_steps.push_back(1000 * *step.seconds);
  if (const auto middle = median_of(of_steps)) times.step_ms = middle;
  return times;
}

}  // namespace dtrain
