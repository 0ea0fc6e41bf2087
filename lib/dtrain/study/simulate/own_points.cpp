#include "dtrain/study/simulate/own_points.hpp"

#include <cmath>

#include "dtrain/study/median.hpp"
#include "dtrain/study/simulate/measurement.hpp"

namespace dtrain {
namespace {

// One process with a batch of its own: mean of its steps, and their standard deviation.
struct Alone {
  double step_ms;
  double spread_ms;
};

// What was measured one after the other; the two of `beside` at the same time.
struct Round {
  double shared_ms;  // 8 logical ranks on 2 processes: median of its steps
  Alone alone;
  Alone beside[2];
};

struct Measured {
  const char* name;
  double gradient_mb;
  double bucket_mb;
  std::vector<Round> rounds;
};

// dtrain bench step --json, 24 steps of one process, 6 of 8 logical ranks, release build.
const std::vector<Measured>& measured() {
  static const std::vector<Measured> all = {
      {"small CNN, 64 x 64, batch 16",
       0.811,
       4.1,
       {{218.2, {54.97, 4.49}, {{56.12, 6.47}, {51.4, 4.53}}},
        {224.5, {48.33, 2.11}, {{47.77, 3.69}, {50.88, 10.5}}},
        {213.9, {50.66, 0.718}, {{52.87, 1.67}, {47.7, 5.93}}}}},
      {"U-Net of base width 8, 128 x 128, batch 2",
       1.953,
       6.4,
       {{223.3, {51.57, 4.98}, {{49.18, 5.75}, {52.79, 4.55}}},
        {188.9, {49.28, 7.41}, {{49.33, 2.75}, {53.51, 1.17}}},
        {254.2, {65.65, 1.04}, {{54.82, 4.02}, {65.89, 1.6}}}}},
      {"ResNet-18, 64 x 64, batch 8",
       44.77,
       30.8,
       {{611.3, {144.4, 9.07}, {{161.2, 26.1}, {150.6, 21.1}}},
        {563.6, {138.8, 15.5}, {{153.6, 21.7}, {163.9, 27.5}}},
        {683.1, {155.2, 5.82}, {{152.9, 16.5}, {165.1, 36.2}}}}},
  };
  return all;
}

Measurement measurement_of(const Measured& network, const Alone& alone) {
  Measurement::Steps steps;
  steps.step_s = alone.step_ms / 1e3;
  steps.workload.compute_s = steps.step_s;
  steps.workload.compute_sd_s = alone.spread_ms / 1e3;
  steps.workload.gradient_bytes = 1e6 * network.gradient_mb;
  steps.workload.bucket_bytes = 1e6 * network.bucket_mb;
  Measurement one;
  one.steps = steps;
  return one;
}

double predicted_s(const Measurement& single) {
  return step_time(single.steps->workload, one_machine(single), SumWay::canonical, 2, 8).seconds();
}

OwnPoint own_point_of(const Measured& network) {
  std::vector<double> step, from_one, from_two;
  for (const Round& round : network.rounds) {
    step.push_back(round.shared_ms / 1e3);
    from_one.push_back(predicted_s(measurement_of(network, round.alone)));
    from_two.push_back(
        predicted_s(joined({measurement_of(network, round.beside[0]), measurement_of(network, round.beside[1])})));
  }
  return {network.name, *median_of(step), *median_of(from_one), *median_of(from_two)};
}

}  // namespace

const std::vector<OwnPoint>& own_points() {
  static const std::vector<OwnPoint> all = [] {
    std::vector<OwnPoint> points;
    for (const Measured& network : measured()) points.push_back(own_point_of(network));
    return points;
  }();
  return all;
}

OwnErrors own_errors() {
  OwnErrors mean;
  const auto count = static_cast<double>(own_points().size());
  for (const OwnPoint& point : own_points()) {
    mean.from_one += std::abs(point.error_from_one()) / count;
    mean.from_two += std::abs(point.error_from_two()) / count;
  }
  return mean;
}

}  // namespace dtrain
