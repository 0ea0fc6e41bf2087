// Whole training steps on ranks that are threads of this process: the promise without a launcher.
#include "dtrain/train/trainer.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/data/loader.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/train/evaluate.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

struct Setting {
  NetworkName network = NetworkName::small_cnn;
  Task task = Task::multiclass;
  int64_t logical_ranks = 4;
  BatchOptions batch{2, 0, 1, false};
  double l2_kernels = 0;
  double clip_norm = 0;
  double dropout = 0.5;
  double learning_rate = 0.01;
  OptimizerName optimizer = OptimizerName::adam;
  DistributedOptions distributed{.bucket_mb = 0.05, .check_every = 2};
};

struct Outcome {
  std::string weights;         // result_sha256
  std::vector<double> losses;  // of each step
  double valid_loss = 0;
  int64_t tracked = 0;
};

DataOptions synthetic_data(const Setting& setting) {
  DataOptions data;
  data.format = DataFormat::synthetic;
  data.synthetic = {21, setting.task == Task::segmentation ? 1 : 3};
  data.image.height = data.image.width = 32;
  data.image.channels = setting.network == NetworkName::unet ? 1 : 3;
  data.image.mean = std::vector<double>(static_cast<size_t>(data.image.channels), 0.5);
  data.image.std = data.image.mean;
  data.augment.hflip = data.augment.rot90 = 0.5;
  data.augment.brightness = data.augment.contrast = 0.3;
  data.loader.threads = 2;
  return data;
}

// Two epochs on the calling rank.
Outcome train(const Setting& setting, Communicator& comm) {
  at::set_num_threads(1);
  const DataOptions data = synthetic_data(setting);
  const Dataset dataset = open_dataset(data, setting.task, 5);
  std::vector<int64_t> train_part;
  std::vector<int64_t> valid_part;
  for (int64_t i = 0; i < 21; ++i) (i < 17 ? train_part : valid_part).push_back(i);
  ModelOptions model;
  model.name = setting.network;
  model.dropout = setting.dropout;
  const NetworkShape shape{data.image.channels, 32, 32, static_cast<int64_t>(dataset.classes.size())};
  OptimizerOptions optimizer;
  optimizer.name = setting.optimizer;
  optimizer.momentum = setting.optimizer == OptimizerName::sgd ? 0.9 : 0;
  optimizer.learning_rate = setting.learning_rate;
  // Every rank starts from other weights; the broadcast must make them one.
  Replica replica(make_network(model, shape, 100 + static_cast<uint64_t>(comm.rank())), at::MemoryFormat::ChannelsLast,
                  optimizer);
  replica.broadcast_from(comm, 0);
  const Loss loss({}, setting.task, {});
  const Schedule schedule({}, optimizer.learning_rate, 1, 1, 2);
  Trace trace(false);
  Loader loader(dataset, data, 5, replica.memory_format(), trace);
  Watchdog watchdog({}, {});
  Trainer trainer({replica, loss, schedule, loader, comm, watchdog, dataset, train_part, trace},
                  {setting.task, 5, setting.logical_ranks, setting.distributed, setting.l2_kernels, setting.clip_norm,
                   setting.batch, Distribute::samples},
                  comm.duplicate());
  Outcome outcome;
  TrainingState state;
  for (int epoch = 0; epoch < 2; ++epoch) {
    trainer.begin_epoch(state);
    while (trainer.steps_left() > 0) outcome.losses.push_back(trainer.step(state, StopRequest::none).loss);
    trainer.end_epoch(state);
  }
  outcome.valid_loss =
      mean_loss(evaluate(replica, loss, setting.task, loader, valid_part, 3, comm, watchdog, state.step));
  outcome.weights = replica.sha256();
  outcome.tracked = replica.steps_tracked();
  return outcome;
}

Outcome train_on(int ranks, const Setting& setting) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& comm) { outcomes[static_cast<size_t>(comm.rank())] = train(setting, comm); });
  for (const Outcome& outcome : outcomes) REQUIRE(outcome.weights == outcomes[0].weights);
  return outcomes[0];
}

}  // namespace

TEST_CASE("training has the same bits on 1, 2, 3 and 4 ranks, with a short last batch") {
  for (const NetworkName network : {NetworkName::small_cnn, NetworkName::unet}) {
    Setting setting;
    setting.network = network;
    setting.task = network == NetworkName::unet ? Task::segmentation : Task::multiclass;
    const Outcome one = train_on(1, setting);
    CHECK(one.losses.size() == 4);  // 17 samples in batches of 8, the last 9 together
    for (int ranks = 2; ranks <= 4; ++ranks) {
      INFO("ranks " << ranks);
      const Outcome more = train_on(ranks, setting);
      CHECK(more.weights == one.weights);
      CHECK(more.losses == one.losses);
      CHECK(more.valid_loss == one.valid_loss);
      CHECK(more.tracked == one.tracked);
    }
    if (network == NetworkName::unet) CHECK(one.tracked == 4);
  }
}

TEST_CASE("another V, another batch or a penalty gives other bits: the equality above is no accident") {
  const Setting setting;
  const std::string weights = train_on(1, setting).weights;
  Setting other = setting;
  other.logical_ranks = 2;
  CHECK(train_on(1, other).weights != weights);
  other = setting;
  other.batch.per_rank = 3;
  CHECK(train_on(1, other).weights != weights);
  other = setting;
  other.l2_kernels = 0.01;
  CHECK(train_on(1, other).weights != weights);
}

TEST_CASE("a global batch that V does not divide is shared out and weighted by count, the same on any ranks") {
  Setting setting;
  setting.logical_ranks = 3;
  setting.batch = {0, 7, 1, false};
  CHECK(train_on(1, setting).weights == train_on(3, setting).weights);
  setting.batch.drop_last = true;
  CHECK(train_on(1, setting).weights == train_on(2, setting).weights);
}

TEST_CASE("a loss that is no number ends training on all ranks alike") {
  Setting setting;
  setting.learning_rate = 1e30;
  for (int ranks : {1, 3}) CHECK_THROWS_AS(train_on(ranks, setting), DivergedError);
}

TEST_CASE("accumulation, clipping and momentum keep the bits on any number of ranks") {
  Setting setting;
  setting.network = NetworkName::unet;
  setting.task = Task::segmentation;
  setting.optimizer = OptimizerName::sgd;
  setting.batch = {1, 0, 2, false};
  setting.clip_norm = 0.05;
  setting.l2_kernels = 1e-3;
  const Outcome one = train_on(1, setting);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    INFO("ranks " << ranks);
    const Outcome more = train_on(ranks, setting);
    CHECK(more.weights == one.weights);
    CHECK(more.losses == one.losses);
  }
  Setting other = setting;
  other.clip_norm = 0;
  CHECK(train_on(1, other).weights != one.weights);
  other = setting;
  other.batch = {2, 0, 1, false};
  CHECK(train_on(1, other).weights != one.weights);
}

TEST_CASE("two accumulated batches weigh what one of twice the size weighs") {
  Setting setting;
  setting.dropout = 0;
  setting.batch = {4, 0, 1, false};
  const Outcome together = train_on(1, setting);
  setting.batch = {2, 0, 2, false};
  const Outcome accumulated = train_on(1, setting);
  REQUIRE(accumulated.losses.size() == together.losses.size());
  for (size_t i = 0; i < together.losses.size(); ++i)
    CHECK(accumulated.losses[i] == Approx(together.losses[i]).epsilon(1e-3));
}

TEST_CASE("other reductions train as well, with replicas that stay equal") {
  Setting setting;
  setting.dropout = 0;
  const Outcome canonical = train_on(3, setting);
  for (const Reduction reduction : {Reduction::ring, Reduction::fastest, Reduction::root_cpu}) {
    setting.distributed.reduction = reduction;
    const Outcome other = train_on(3, setting);
    CHECK(other.losses.back() == Approx(canonical.losses.back()).epsilon(1e-3));
  }
}
