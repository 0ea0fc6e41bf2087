#include "training.hpp"

#include <numeric>

#include "dtrain/data/formats/formats.hpp"

namespace dtrain {

constexpr uint64_t kSeed = 5;
constexpr double kRate = 0.001;

static Task task_of(const NetworkKind* network) { return network->per_pixel ? Task::segmentation : Task::multiclass; }

static DataOptions data_of(const Training::Setting& setting, int64_t ranks) {
  DataOptions data;
  data.format = format_named("synthetic");
  data.synthetic = {setting.steps * setting.per_rank * ranks, setting.network->per_pixel ? 1 : 3};
  data.image.height = data.image.width = setting.pixels;
  data.image.channels = setting.network->image_channels;
  data.image.mean = data.image.std = std::vector<double>(static_cast<size_t>(data.image.channels), 0.5);
  data.loader.threads = 1;
  return data;
}

Training::Training(const Setting& setting, Communicator& comm, std::unique_ptr<Communicator> gradients,
                   Watchdog* watchdog)
    : data_(data_of(setting, comm.size())),
      dataset_(open_dataset(data_, task_of(setting.network), kSeed)),
      samples_(dataset_.samples.size()),
      loss_({}, task_of(setting.network), {}),
      schedule_({}, kRate, 1, setting.steps, 1) {
  std::iota(samples_.begin(), samples_.end(), 0);
  ModelOptions model;
  model.kind = setting.network;
  model.base_width = setting.base_width;
  const NetworkShape shape{.channels = data_.image.channels,
                           .height = setting.pixels,
                           .width = setting.pixels,
                           .outputs = static_cast<int64_t>(dataset_.classes.size())};
  OptimizerOptions optimizer;
  optimizer.kind = optimizer_kind("adam");
  optimizer.learning_rate = kRate;
  const at::MemoryFormat format = memory_format_for(*model.kind, at::kCPU);
  replica_ = std::make_unique<Replica>(make_network(model, shape, kSeed), format, optimizer);
  replica_->broadcast_from(comm, 0);
  loader_ = std::make_unique<Loader>(dataset_, data_, kSeed, format, trace_);
  DistributedOptions distributed;
  distributed.check_every = setting.check_every;
  distributed.bucket_mb = setting.network->per_pixel ? 0.01 : 0;  // several buckets
  trainer_ = std::make_unique<Trainer>(Trainer::Parts{.replica = *replica_,
                                                      .loss = loss_,
                                                      .schedule = schedule_,
                                                      .loader = *loader_,
                                                      .comm = comm,
                                                      .watchdog = watchdog == nullptr ? nobody_ : *watchdog,
                                                      .dataset = dataset_,
                                                      .train = samples_,
                                                      .trace = trace_},
                                       Trainer::Options{.task = task_of(setting.network),
                                                        .seed = kSeed,
                                                        .logical_ranks = comm.size(),
                                                        .distributed = distributed,
                                                        .batch = BatchOptions{.per_rank = setting.per_rank}},
                                       gradients ? std::move(gradients) : comm.duplicate());
  trainer_->begin_epoch(state_);
}

void Training::step() {
  if (trainer_->steps_left() == 0) {
    trainer_->end_epoch(state_);
    trainer_->begin_epoch(state_);
  }
  trainer_->step(state_, StopRequest::none);
}

}  // namespace dtrain
