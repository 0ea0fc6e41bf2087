// The time that a job will take, in dtrain check.
#include "commands/check_scaling.hpp"

#include <ATen/Parallel.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/cluster_file.hpp"
#include "commands/matrix_peak.hpp"
#include "commands/simulate_telling.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/study/simulate/published.hpp"

namespace dtrain {
namespace {

// Of the speed of matrix products that training reaches on a CPU: 67 to 98 % in docs/performance.md.
constexpr double kMatrixShare = 0.8;

// Of one core here: a product of 512 takes a hundredth of a second.
double core_flop_per_s(Precision precision) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double gflop_per_s = matrix_peak(at::kCPU, precision, 512, 5);
  at::set_num_threads(threads);
  return 1e9 * gflop_per_s;
}

double gradient_bytes_of(const Network& network, const Plan& plan) {
  double parameters = 0;
  for (const Network::Layer& layer : network.layers(plan.shape)) parameters += static_cast<double>(layer.parameters);
  return 4 * parameters;
}

// Of a logical rank in a step.
double images_of_rank(const Experiment& e, const Plan& plan) {
  return static_cast<double>(full_global_batch(e.batch, plan.logical_ranks)) / static_cast<double>(plan.logical_ranks);
}

Measurement assumed_steps(const Experiment& e, const Plan& plan, const Network& network) {
  double flop = 0;
  for (const Network::Layer& layer : network.layers(plan.shape)) flop += 3 * static_cast<double>(layer.flop);
  Measurement::Steps steps;
  Workload& work = steps.workload;
  work.batch = images_of_rank(e, plan);
  const double flop_per_s = core_flop_per_s(e.precision) * static_cast<double>(e.distributed.threads);
  work.compute_s = work.batch * flop / (kMatrixShare * flop_per_s);
  work.compute_sd_s = published_errors().fit.spread * work.compute_s;
  work.gradient_bytes = gradient_bytes_of(network, plan);
  steps.step_s = work.compute_s;
  steps.spread_measured = false;
  Measurement measured;
  measured.steps = steps;
  return measured;
}

Measurement given_steps(const std::vector<std::string>& from, const Experiment& e, const Plan& plan,
                        const Network& network, std::vector<std::string>& assumed) {
  std::vector<Measurement> all;
  for (const std::string& path : from) all.push_back(read_measurement(path));
  Measurement measured = joined(all);
  Workload& work = measured.steps->workload;
  const double bytes = gradient_bytes_of(network, plan);
  constexpr double kSameNetwork = 0.1;  // buffers are added up too
  if (std::abs(work.gradient_bytes - bytes) > kSameNetwork * bytes)
    throw DataError(measured.name + " measured another network: " + fixed(work.gradient_bytes / 1e6, 1) +
                    " MB of gradients, and this one has " + fixed(bytes / 1e6, 1));
  const double batch = images_of_rank(e, plan);
  if (std::abs(work.batch - batch) > 0.5) {
    assumed.push_back("a batch of " + fixed(batch, 0) + " takes " + fixed(batch / work.batch, 2) +
                      " times as long as the measured one of " + fixed(work.batch, 0));
    work.compute_s *= batch / work.batch;
    work.compute_sd_s *= batch / work.batch;
    work.batch = batch;
  }
  return measured;
}

bool on_gpu(const Experiment& e) {
  return e.device == DeviceChoice::cuda ||
         (e.device == DeviceChoice::automatic && no_gpu_reason(ask_gpu_driver()).empty());
}

std::string hours_text(double seconds) {
  return seconds < 3600 ? fixed(seconds / 60, 1) + " minutes" : fixed(seconds / 3600, 1) + " hours";
}

}  // namespace

void tell_scaling(const ScalingQuestion& question, const Experiment& e, const Plan& plan, const Network& network,
                  CheckJson& json) {
  if (question.from.empty() && on_gpu(e)) {
    json["time"] = nullptr;
    std::printf(
        "time: not predicted: how fast a GPU trains this is not known; dtrain bench step --json > step.json "
        "measures it, and --from step.json adds it here\n");
    return;
  }
  std::vector<std::string> assumed;
  Simulation simulation;
  simulation.measured =
      question.from.empty() ? assumed_steps(e, plan, network) : given_steps(question.from, e, plan, network, assumed);
  simulation.described = !question.cluster.empty();
  SimulatedJob& job = simulation.job;
  job.cluster = simulation.described ? read_cluster(question.cluster) : one_machine(simulation.measured);
  job.workload = simulation.measured.steps->workload;
  job.length = simulation.measured.length;  // evaluation and start
  job.length.samples = static_cast<int64_t>(plan.split.train.size());
  job.length.epochs = e.epochs;
  job.logical_ranks = e.distributed.logical_ranks;
  simulation.measured.length = job.length;
  const ScalingPrediction point = predict_scaling(job, SumWay::canonical, question.processes);
  const int64_t pays = pays_until(job, SumWay::canonical);
  if (question.from.empty())
    assumed.push_back("nothing was measured: a step takes what its operations take at " + fixed(100 * kMatrixShare, 0) +
                      " % of the matrix products of " + count_of(e.distributed.threads, "core") +
                      " here; --from a file of dtrain bench step --json, or a run's folder, measures it");
  for (const std::string& sentence : assumptions(simulation)) assumed.push_back(sentence);
  std::printf("time: about %s on %s, %s node hours, %s images/s; %s\n", hours_text(*point.time_to_train_s).c_str(),
              count_of(question.processes, "process", "processes").c_str(),
              fixed(*point.node_hours, *point.node_hours < 10 ? 2 : 0).c_str(),
              fixed(point.step.images_per_s(), 1).c_str(), pays_sentence(job).c_str());
  for (const std::string& sentence : assumed) std::printf("  assumed: %s\n", sentence.c_str());
  json["time"] = {{"hours", *point.time_to_train_s / 3600},
                  {"node_hours", *point.node_hours},
                  {"images_per_s", point.step.images_per_s()},
                  {"step_ms", 1e3 * point.step.seconds()},
                  {"efficiency", point.efficiency},
                  {"pays_until_ranks", pays},
                  {"measured", !question.from.empty()},
                  {"assumed", assumed},
                  {"published_error_points", published_errors().mean_points}};
}

}  // namespace dtrain
