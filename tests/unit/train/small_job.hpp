// A training run of a few steps that a test controls.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/train/evaluate.hpp"
#include "dtrain/train/trainer.hpp"

namespace dtrain::test {

inline constexpr int64_t kSamples = 16;
inline constexpr double kRate = 0.01;

/// What a test varies.
struct JobSetting {
  const NetworkKind* network = network_kind("small_cnn");
  Precision precision = Precision::fp16;
  double first_scale = LossScale::kFirst;
  const OptimizerKind* optimizer = optimizer_kind("adam");
  double clip_norm = 0;
  double l2_kernels = 0;
  double pos_weight = 1;
  int64_t logical_ranks = 4;
  int64_t accumulate = 1;
  double dropout = 0.5;
  MixOptions mix = {};
  GpuModule* recorder = nullptr;  ///< passes run as its graphs, but on the CPU
};

/// A job of 16 generated pictures, two per logical rank and step, on the calling rank. They are small, and the UNet is
/// narrow: a processor without float16 products takes a second for a step of 32 x 32 pixels.
class SmallJob {
 public:
  SmallJob(const JobSetting& setting, Communicator& comm)
      : data_(data_of(setting)),
        dataset_(open_dataset(data_, task_of(setting), 5)),
        samples_(kSamples),
        replica_(network_of(setting), at::MemoryFormat::ChannelsLast, optimizer_of(setting),
                 Device{c10::kCPU, &host_math(), setting.recorder}, setting.precision),
        loss_(LossOptions{}, task_of(setting), {setting.pos_weight}),
        schedule_(ScheduleOptions{}, kRate, 1, 2, 1),
        loader_(dataset_, data_, 5, at::MemoryFormat::ChannelsLast, trace_),
        comm_(comm) {
    at::set_num_threads(1);
    std::iota(samples_.begin(), samples_.end(), 0);
    replica_.loss_scale().scale = setting.first_scale;
    trainer_ = std::make_unique<Trainer>(
        Trainer::Parts{.replica = replica_,
                       .loss = loss_,
                       .schedule = schedule_,
                       .loader = loader_,
                       .comm = comm,
                       .watchdog = watchdog_,
                       .dataset = dataset_,
                       .train = samples_,
                       .trace = trace_},
        Trainer::Options{.task = task_of(setting),
                         .seed = 5,
                         .logical_ranks = setting.logical_ranks,
                         .distributed = DistributedOptions{.bucket_mb = 0.05},
                         .l2_kernels = setting.l2_kernels,
                         .clip_norm = setting.clip_norm,
                         .batch = BatchOptions{.per_rank = 2, .accumulate = setting.accumulate},
                         .cuda_graphs = setting.recorder != nullptr,
                         .mix = setting.mix},
        comm.duplicate());
    trainer_->begin_epoch(state_);
  }

  StepReport step() {
    if (trainer_->steps_left() == 0) {
      trainer_->end_epoch(state_);
      trainer_->begin_epoch(state_);
    }
    return trainer_->step(state_, StopRequest::none);
  }

  double valid_loss(Task task) {
    return mean_loss(evaluate({.replica = replica_,
                               .loss = loss_,
                               .task = task,
                               .loader = loader_,
                               .samples = samples_,
                               .batch = 3,
                               .comm = comm_,
                               .watchdog = watchdog_,
                               .step = state_.step})
                         .value());
  }

  Replica& replica() { return replica_; }
  Trainer& trainer() { return *trainer_; }
  const TrainingState& state() const { return state_; }

  static Task task_of(const JobSetting& setting) {
    return setting.network->per_pixel ? Task::segmentation : Task::multilabel;
  }

 private:
  static int64_t side_of(const JobSetting& setting) { return setting.network->per_pixel ? 32 : 16; }

  static DataOptions data_of(const JobSetting& setting) {
    DataOptions data;
    data.format = format_named("synthetic");
    data.synthetic = {kSamples, 1};
    data.image.height = data.image.width = side_of(setting);
    data.image.channels = setting.network->image_channels;
    data.image.mean = data.image.std = std::vector<double>(static_cast<size_t>(data.image.channels), 0.5);
    data.loader.threads = 1;
    return data;
  }

  static std::shared_ptr<Network> network_of(const JobSetting& setting) {
    ModelOptions model;
    model.kind = setting.network;
    model.dropout = setting.dropout;
    model.base_width = 4;
    const int64_t side = side_of(setting);
    return make_network(model, {setting.network->image_channels, side, side, 1}, 7);
  }

  static OptimizerOptions optimizer_of(const JobSetting& setting) {
    OptimizerOptions optimizer;
    optimizer.kind = setting.optimizer;
    return optimizer;
  }

  DataOptions data_;
  Dataset dataset_;
  std::vector<int64_t> samples_;
  Replica replica_;
  Loss loss_;
  Schedule schedule_;
  Trace trace_{false};
  Loader loader_;
  Communicator& comm_;
  Watchdog watchdog_{{}, {}};
  TrainingState state_;
  std::unique_ptr<Trainer> trainer_;
};

/// All weights in the network's order.
inline at::Tensor weights_of(Replica& replica) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : replica.parameters()) flat.push_back(parameter.detach().flatten());
  return at::cat(flat);
}

}  // namespace dtrain::test
