#include "whole_training.hpp"

#include <ATen/Parallel.h>

#include <array>
#include <cstdio>
#include <numeric>

#include "dtrain/base/hash.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/train/evaluate.hpp"
#include "support/host_gpu/host_gpu.hpp"

namespace dtrain::test {

constexpr uint64_t kSeed = 5;
constexpr double kRate = 0.002;

static Task task_of(const TrainingSetting& setting) {
  return setting.network->per_pixel ? Task::segmentation : Task::multiclass;
}

static DataOptions data_of(const TrainingSetting& setting) {
  DataOptions data;
  data.format = format_named("synthetic");
  data.synthetic = {setting.samples + setting.samples / 3, setting.network->per_pixel ? 1 : 3};
  data.image.height = data.image.width = setting.pixels;
  data.image.channels = setting.network->image_channels;
  data.image.mean = data.image.std = std::vector<double>(static_cast<size_t>(data.image.channels), 0.5);
  data.augment.hflip = data.augment.rot90 = 0.5;
  data.loader.threads = 1;
  return data;
}

static std::vector<int64_t> counted(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

// With all of its digits.
static std::string exact(const char* what, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s %.17g, ", what, value);
  return text.data();
}

static OptimizerOptions optimizer_of(const TrainingSetting& setting) {
  OptimizerOptions options = optimizer_defaults(*setting.optimizer);
  options.learning_rate = kRate;
  if (setting.frozen.empty()) return options;
  options.groups.emplace_back();
  options.groups.back().match = setting.frozen;
  options.groups.back().freeze = true;
  options.freeze_until = {1, Duration::Unit::epochs};
  return options;
}

static LossOptions loss_of(const TrainingSetting& setting) {
  LossOptions options;
  options.kind = setting.loss;
  return options;
}

static std::shared_ptr<Network> network_of(const TrainingSetting& setting, int64_t classes) {
  ModelOptions model;
  model.kind = setting.network;
  model.base_width = 2;
  model.levels = 2;
  model.fused = setting.fused;
  model.dropout = setting.dropout;
  const int64_t side = setting.pixels;
  return make_network(
      model, {.channels = setting.network->image_channels, .height = side, .width = side, .outputs = classes}, kSeed);
}

static Trainer::Options trainer_options(const TrainingSetting& setting) {
  DistributedOptions distributed;
  distributed.check_every = 1;
  distributed.bucket_mb = setting.bucket_mb;
  return {.task = task_of(setting),
          .seed = kSeed,
          .logical_ranks = WholeTraining::kLogicalRanks,
          .distributed = distributed,
          .l2_kernels = setting.l2_kernels,
          .clip_norm = setting.clip_norm,
          .batch = BatchOptions{.per_rank = setting.per_rank, .accumulate = setting.accumulate},
          .cuda_graphs = setting.graphs,
          .mix = {.mixup = setting.mixup},
          .freeze_until = optimizer_of(setting).freeze_until,
          .adds_up_first =
              adds_up_first(loss_of(setting), task_of(setting), WholeTraining::kLogicalRanks * setting.accumulate)};
}

WholeTraining::WholeTraining(const TrainingSetting& setting, const Device& device, Communicator& comm,
                             std::unique_ptr<Communicator> gradients)
    : setting_(setting),
      comm_(comm),
      data_(data_of(setting)),
      dataset_(open_dataset(data_, task_of(setting), kSeed)),
      train_(counted(0, setting.samples)),
      valid_(counted(setting.samples, setting.samples + setting.samples / 3)),
      loss_(loss_of(setting), task_of(setting), {}, device.place),
      schedule_({}, kRate, 1, 4, setting.epochs) {
  at::set_num_threads(1);
  const auto format = at::MemoryFormat::ChannelsLast;
  replica_ = std::make_unique<Replica>(network_of(setting, static_cast<int64_t>(dataset_.classes.size())), format,
                                       optimizer_of(setting), device);
  if (setting.ema > 0) replica_->keep_average({.decay = setting.ema});
  replica_->broadcast_from(comm, 0);
  const bool on_gpu = !device.place.is_cpu();
  if (setting.cache) cache_ = std::make_unique<PictureCache>(static_cast<int64_t>(dataset_.samples.size()));
  loader_ = std::make_unique<Loader>(
      dataset_, data_, kSeed, format, trace_,
      Delivery{.pinned = on_gpu, .raw = on_gpu || setting.cache, .cache = cache_.get(), .substitutes = &train_});
  batches_ = std::make_unique<DeviceBatches>(*loader_, device, cache_.get());
  trainer_ = std::make_unique<Trainer>(Trainer::Parts{.replica = *replica_,
                                                      .loss = loss_,
                                                      .schedule = schedule_,
                                                      .loader = *batches_,
                                                      .comm = comm,
                                                      .watchdog = watchdog_,
                                                      .dataset = dataset_,
                                                      .train = train_,
                                                      .trace = trace_},
                                       trainer_options(setting), std::move(gradients));
}

std::string WholeTraining::validate() {
  std::optional<AveragedWeights> averaged;
  if (replica_->has_average()) averaged.emplace(*replica_);
  const auto predictions = evaluate({.replica = *replica_,
                                     .loss = loss_,
                                     .task = task_of(setting_),
                                     .loader = *batches_,
                                     .samples = valid_,
                                     .batch = 3,
                                     .comm = comm_,
                                     .watchdog = watchdog_,
                                     .step = state_.step});
  return exact("valid", mean_loss(predictions.value()));
}

void WholeTraining::take_steps(int64_t count) {
  if (state_.step == 0) trainer_->begin_epoch(state_);
  for (int64_t i = 0; i < count; ++i) trainer_->step(state_, StopRequest::none);
}

std::string WholeTraining::run() {
  std::string text;
  for (int64_t epoch = 0; epoch < setting_.epochs; ++epoch) {
    trainer_->begin_epoch(state_);
    while (trainer_->steps_left() > 0) trainer_->step(state_, StopRequest::none);
    text += exact("train", trainer_->end_epoch(state_).train_loss) + validate();
  }
  trainer_->require_equal_replicas(state_.step);
  std::vector<uint32_t> all = replica_->hash_weights();
  for (const uint32_t hash : replica_->hash_buffers()) all.push_back(hash);
  const uint64_t hash = hash64({reinterpret_cast<const char*>(all.data()), all.size() * sizeof all[0]});
  return text + "weights, statistics and state " + std::to_string(hash);
}

}  // namespace dtrain::test
