// dtrain bench step: real training steps on pictures in memory.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "commands/commands.hpp"
#include "commands/matrix_peak.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/train/trainer.hpp"
#include "job/batch_estimate.hpp"
#include "job/planned_parts.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

constexpr int64_t kWarmUpSteps = 4;  // the first ones choose layout and intervals

// The configured job on generated pictures: the requested number of full steps, nothing else.
Experiment benched(const Experiment& configured, int64_t logical_ranks, int64_t steps) {
  Experiment e = configured;
  if (!e.data.format->generated) {
    const auto classes = static_cast<int64_t>(e.data.classes.size());
    e.data.synthetic.classes = e.model.outputs.value_or(classes > 0 ? classes : e.task == Task::multilabel ? 14 : 2);
    if (e.task == Task::segmentation) e.data.synthetic.classes = e.model.outputs.value_or(1);
    e.data.format = generated_format();
    e.data.classes.clear();
  }
  e.model.weights.clear();
  e.data.augment = {};
  e.data.split = {};
  e.data.split.given = true;
  e.data.split.valid = 0;
  e.data.synthetic.samples = steps * full_global_batch(e.batch, logical_ranks);
  return e;
}

// Forward and backward of one picture: the backward pass costs two products where the forward costs one.
double training_gflop(const Network& network, const NetworkShape& shape) {
  double flop = 0;
  for (const Network::Layer& layer : network.layers(shape)) flop += static_cast<double>(layer.flop);
  return 3e-9 * flop;
}

struct Result {
  std::vector<double> step_ms;  // of this rank, sorted
  double images_per_s = 0;
  double forward_images_per_s = 0;  // in evaluation, as eval and predict compute
  double peak_gflops = 0;           // all ranks together
  double memory_mb = 0;             // largest of the ranks
  double allreduce_share = 0;
  double imbalance_share = 0;
  double check_share = 0;
  double gflop = 0;  // of a picture
  double bucket_mb = 0;
  double gradient_mb = 0;               // summed in a step
  std::optional<double> gpu_memory_mb;  // of this rank; none on a CPU

  double median_ms() const { return step_ms[step_ms.size() / 2]; }
  double p95_ms() const { return step_ms[std::min(step_ms.size() - 1, step_ms.size() * 95 / 100)]; }
  double peak_share() const { return gflop * images_per_s / peak_gflops; }
};

Result run_steps(Trainer& trainer, const Experiment& e, int64_t steps, Job& job) {
  TrainingState state;
  trainer.begin_epoch(state);
  for (int64_t i = 0; i < kWarmUpSteps; ++i) trainer.step(state, StopRequest::none);
  Result result;
  const double checked = trainer.replica_check().seconds();
  const Timing before = trainer.spent();
  barrier(job.comm());
  const Stopwatch watch;
  for (int64_t i = 0; i < steps; ++i) {
    const Stopwatch step;
    trainer.step(state, StopRequest::none);
    result.step_ms.push_back(step.seconds() * 1e3);
  }
  barrier(job.comm());
  const double seconds = watch.seconds();
  std::sort(result.step_ms.begin(), result.step_ms.end());
  result.images_per_s = static_cast<double>(e.data.synthetic.samples * steps / (steps + kWarmUpSteps)) / seconds;
  result.allreduce_share = (trainer.spent().allreduce_s - before.allreduce_s) / seconds;
  result.imbalance_share = (trainer.spent().imbalance_s - before.imbalance_s) / seconds;
  result.check_share = (trainer.replica_check().seconds() - checked) / seconds;
  return result;
}

// Pictures per second of all ranks by the forward passes of evaluation, of a rank's batch again and again.
double forward_rate(Replica& replica, BatchSource& batches, int64_t batch, int64_t steps, Job& job) {
  std::vector<int64_t> samples(static_cast<size_t>(batch));
  std::iota(samples.begin(), samples.end(), 0);
  batches.start({{samples, std::nullopt}});
  const at::Tensor images = batches.next().value().images;
  const at::NoGradGuard no_grad;
  replica.network().eval();
  const auto passes = [&](int64_t count) {
    at::Tensor logits;
    for (int64_t i = 0; i < count; ++i) logits = replica.forward(images);
    logits.to(at::kCPU);  // a GPU's work is done
    barrier(job.comm());
  };
  passes(kWarmUpSteps);
  const Stopwatch watch;
  passes(steps);
  return static_cast<double>(batch * steps * job.size()) / watch.seconds();
}

// Builds the parts of a training run, takes its steps, and gathers what all ranks measured.
Result measured(const BenchStepCommand& command, const Experiment& e, const Plan& plan, Job& job) {
  const int64_t v = plan.logical_ranks;
  std::string weights_line;
  Replica replica(make_planned_network(e, plan, false, weights_line),
                  memory_format_for(*e.model.kind, job.device().place.type()), e.optimizer, job.device(), e.precision);
  const double gflop = training_gflop(replica.network(), plan.shape);
  barrier(job.comm());
  const double own_peak =
      matrix_peak(job.device().place, e.precision, matrix_peak_side(job.device().place, e.precision));
  const Loss loss = make_planned_loss(e, plan, job.device().place);
  ScheduleOptions base_rate;
  base_rate.scale_with_ranks = RankScaling::none;
  const Schedule schedule(base_rate, e.optimizer.learning_rate, v, command.steps, 1);
  Trace trace(false);
  const auto loader = make_planned_loader(e, plan, replica, trace, job.cores());
  DeviceBatches on_device(*loader, job.device());
  RepeatedBatches batches(on_device);
  Trainer::Options options = planned_trainer_options(e, v);
  options.loader = {};  // generated pictures: none is bad, and each rank makes only its own
  const std::unique_ptr<Trainer> trainer = make_planned_trainer(
      options, plan, job, {.replica = replica, .loss = loss, .schedule = schedule, .batches = batches, .trace = trace});
  Result result = run_steps(*trainer, e, command.steps, job);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  if (GpuModule* gpu = job.device().module) result.gpu_memory_mb = gpu->memory_peak_mb();
  result.forward_images_per_s = forward_rate(replica, batches, plan.local_batch, command.steps, job);
  for (const at::Tensor& rank :
       all_gather(job.comm(), at::tensor({own_peak, static_cast<double>(usage.ru_maxrss) * 1024 / 1e6}, at::kDouble))) {
    result.peak_gflops += rank[0].item<double>();
    result.memory_mb = std::max(result.memory_mb, rank[1].item<double>());
  }
  result.gflop = gflop;
  const GradientReducer& reducer = trainer->reducer();
  result.bucket_mb = reducer.cost().bucket_mb;
  result.gradient_mb = 4e-6 * static_cast<double>(reducer.gradients().numel() + reducer.extra().numel());
  return result;
}

std::string rate_shown(double images_per_s) {
  return images_per_s < 100 ? fixed(images_per_s, 1) : with_commas(std::llround(images_per_s));
}

void print_result(const BenchStepCommand& command, const Config& config, const Plan& plan, int ranks,
                  const Result& result) {
  std::printf("%s, %s, %s x %s x %s, %s, %s x %s: %s images/s\n", config.experiment.model.kind->name.c_str(),
              name_of(config.experiment.precision), std::to_string(plan.shape.height).c_str(),
              std::to_string(plan.shape.width).c_str(), std::to_string(plan.shape.channels).c_str(),
              count_of(ranks, "rank").c_str(), std::to_string(plan.local_batch).c_str(),
              count_of(plan.logical_ranks, "logical rank").c_str(), rate_shown(result.images_per_s).c_str());
  std::printf("  step           median %s ms, p95 %s ms over %s\n", fixed(result.median_ms(), 1).c_str(),
              fixed(result.p95_ms(), 1).c_str(), count_of(command.steps, "step").c_str());
  std::printf("  evaluation     %s images/s, forward passes alone\n", rate_shown(result.forward_images_per_s).c_str());
  std::printf("  matrix peak    %s %% of %s GFLOP/s, %s GFLOP/picture\n", fixed(100 * result.peak_share(), 1).c_str(),
              fixed(result.peak_gflops, 1).c_str(), fixed(result.gflop, 1).c_str());
  if (result.peak_share() > 1)
    std::printf(
        "                 above 100 %%: convolutions by tiles do fewer products than are counted, or the machine was "
        "busy\n");
  std::printf("  not hidden     all-reduce %s %%, imbalance %s %%, replica hashes %s %%\n",
              fixed(100 * result.allreduce_share, 2).c_str(), fixed(100 * result.imbalance_share, 2).c_str(),
              fixed(100 * result.check_share, 2).c_str());
  std::printf("  memory         %s MB of the largest rank\n", fixed(result.memory_mb, 0).c_str());
  if (result.gpu_memory_mb) std::printf("  GPU memory     %s MB of rank 0\n", fixed(*result.gpu_memory_mb, 0).c_str());
}

nlohmann::ordered_json result_json(const BenchStepCommand& command, const Config& config, const Plan& plan, int ranks,
                                   const Result& result) {
  nlohmann::ordered_json gpu_memory;  // null on a CPU
  if (result.gpu_memory_mb) gpu_memory = *result.gpu_memory_mb;
  return {{"model", config.values.at("model.name").text},
          {"precision", name_of(config.experiment.precision)},
          {"ranks", ranks},
          {"logical_ranks", plan.logical_ranks},
          {"images_per_s", result.images_per_s},
          {"forward_images_per_s", result.forward_images_per_s},
          {"step_ms_median", result.median_ms()},
          {"step_ms_p95", result.p95_ms()},
          {"matrix_peak_share", result.peak_share()},
          {"matrix_peak_gflops", result.peak_gflops},
          {"gflop_per_image", result.gflop},
          {"allreduce_share", result.allreduce_share},
          {"imbalance_share", result.imbalance_share},
          {"check_share", result.check_share},
          {"memory_peak_mb", result.memory_mb},
          {"gpu_memory_peak_mb", gpu_memory},
          {"warmup_steps", kWarmUpSteps},
          {"steps", command.steps},
          {"images_per_step", full_global_batch(config.experiment.batch, plan.logical_ranks)},
          {"gradient_mb", result.gradient_mb},
          {"bucket_mb", result.bucket_mb},
          {"versions", library_versions()}};
}

}  // namespace

int run_bench_step(const BenchStepCommand& command, const Config& config, Job& job) {
  const int64_t v =
      config.experiment.distributed.logical_ranks > 0 ? config.experiment.distributed.logical_ranks : job.size();
  require_ranks_fit(job.size(), v);
  require_batch_number(config.experiment, "dtrain bench step");
  const Experiment e = benched(config.experiment, v, command.steps + kWarmUpSteps);
  const Plan plan = make_plan(e, v);
  const Result result = measured(command, e, plan, job);
  if (!job.is_root()) return exit_code::kDone;
  print_result(command, config, plan, job.size(), result);
  if (command.json)
    std::printf("%s\n", printable(result_json(command, config, plan, job.size(), result).dump()).c_str());
  return exit_code::kDone;
}

}  // namespace dtrain
