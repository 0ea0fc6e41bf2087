// Whole training steps on ranks that are threads of this process: the promise without a launcher.
#include "dtrain/train/trainer.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/train/evaluate.hpp"
#include "poisoned_batches.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

struct Setting {
  const NetworkKind* network = network_kind("small_cnn");
  Task task = Task::multiclass;
  int64_t logical_ranks = 4;
  BatchOptions batch{.per_rank = 2};
  double l2_kernels = 0;
  double clip_norm = 0;
  double dropout = 0.5;
  double learning_rate = 0.01;
  const OptimizerKind* optimizer = optimizer_kind("adam");
  DistributedOptions distributed{.bucket_mb = 0.05, .check_every = 2};
  bool skip_not_finite = false;
  std::set<int64_t> poisoned = {};  // samples whose pictures are NaN
  int64_t epochs = 2;
  MixOptions mix = {};
  std::vector<ParameterGroup> groups = {};
  Duration freeze_until = {0, Duration::Unit::epochs};
  EmaOptions ema = {};
};

struct Outcome {
  std::string weights;                         // result_sha256
  std::map<std::string, std::string> tensors;  // of the model: SHA-256 of each by name
  std::vector<double> losses;                  // of each step
  double valid_loss = 0;
  int64_t tracked = 0;
  std::vector<std::string> not_finite;  // what updates were skipped for
  double last_train_loss = 0;
  std::string average;
};

DataOptions synthetic_data(const Setting& setting) {
  DataOptions data;
  data.format = format_named("synthetic");
  data.synthetic = {21, setting.task == Task::segmentation ? 1 : 3};
  data.image.height = data.image.width = 32;
  data.image.channels = setting.network->image_channels;
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
  model.kind = setting.network;
  model.dropout = setting.dropout;
  model.base_width = 4;
  const NetworkShape shape{data.image.channels, 32, 32, static_cast<int64_t>(dataset.classes.size())};
  OptimizerOptions optimizer;
  optimizer.kind = setting.optimizer;
  optimizer.momentum = setting.optimizer == optimizer_kind("sgd") ? 0.9 : 0;
  optimizer.learning_rate = setting.learning_rate;
  optimizer.groups = setting.groups;
  // Every rank starts from other weights; the broadcast must make them one.
  Replica replica(make_network(model, shape, 100 + static_cast<uint64_t>(comm.rank())), at::MemoryFormat::ChannelsLast,
                  optimizer);
  if (setting.ema.decay > 0) replica.keep_average(setting.ema);
  replica.broadcast_from(comm, 0);
  const Loss loss({}, setting.task, {});
  const Schedule schedule({}, optimizer.learning_rate, 1, 1, 2);
  Trace trace(false);
  Loader files(dataset, data, 5, replica.memory_format(), trace);
  PoisonedBatches loader(files, setting.poisoned);
  Watchdog watchdog({}, {});
  Trainer trainer({replica, loss, schedule, loader, comm, watchdog, dataset, train_part, trace},
                  {.task = setting.task,
                   .seed = 5,
                   .logical_ranks = setting.logical_ranks,
                   .distributed = setting.distributed,
                   .l2_kernels = setting.l2_kernels,
                   .clip_norm = setting.clip_norm,
                   .batch = setting.batch,
                   .skip_not_finite = setting.skip_not_finite,
                   .mix = setting.mix,
                   .freeze_until = setting.freeze_until},
                  comm.duplicate());
  Outcome outcome;
  TrainingState state;
  for (int64_t epoch = 0; epoch < setting.epochs; ++epoch) {
    trainer.begin_epoch(state);
    while (trainer.steps_left() > 0) {
      const StepReport step = trainer.step(state, StopRequest::none);
      outcome.losses.push_back(step.loss);
      if (step.skipped) outcome.not_finite.push_back(step.not_finite);
    }
    outcome.last_train_loss = trainer.end_epoch(state).train_loss;
  }
  outcome.valid_loss = mean_loss(evaluate({.replica = replica,
                                           .loss = loss,
                                           .task = setting.task,
                                           .loader = loader,
                                           .samples = valid_part,
                                           .batch = 3,
                                           .comm = comm,
                                           .watchdog = watchdog,
                                           .step = state.step})
                                     .value());
  outcome.weights = replica.sha256();
  outcome.average = result_sha256(replica.average_tensors());
  for (const FileTensor& tensor : replica.model_tensors("")) outcome.tensors[tensor.name] = result_sha256({tensor});
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
  for (const NetworkKind* network : {network_kind("small_cnn"), network_kind("unet")}) {
    Setting setting;
    setting.network = network;
    setting.task = network->per_pixel ? Task::segmentation : Task::multiclass;
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
    if (network->per_pixel) CHECK(one.tracked == 4);
  }
}

TEST_CASE(
    "frozen parameters and the statistics of their norms keep their bits, and the rest is the same on any ranks") {
  for (const double clip_norm : {0.0, 0.1}) {
    Setting setting;
    setting.network = network_kind("unet");
    setting.task = Task::segmentation;
    setting.clip_norm = clip_norm;  // updates are made at once, or bucket by bucket
    setting.logical_ranks = 3;      // a third of three equal statistics is not always what they were
    setting.epochs = 0;
    const Outcome before = train_on(1, setting);
    setting.epochs = 2;
    setting.groups = {{.match = "down.*", .weight_decay = {}, .freeze = true},
                      {.match = "bridge.*", .rate = 0.1, .weight_decay = {}}};
    const Outcome one = train_on(1, setting);
    for (const auto& [name, sha256] : one.tensors) {
      INFO(name);
      CHECK((sha256 == before.tensors.at(name)) == name.starts_with("down."));
    }
    CHECK(one.tracked == 6);  // 17 samples in batches of 6, twice
    for (const int ranks : {2, 3}) CHECK(train_on(ranks, setting).weights == one.weights);
    setting.groups[1].rate = 1;
    CHECK(train_on(1, setting).weights != one.weights);
  }
}

TEST_CASE("frozen parameters thaw when it is time, with the same bits on any ranks") {
  Setting setting;
  setting.network = network_kind("unet");
  setting.task = Task::segmentation;
  setting.groups = {{.match = "down.*", .weight_decay = {}, .freeze = true}};
  const std::string never = train_on(1, setting).weights;
  setting.freeze_until = {1, Duration::Unit::epochs};
  setting.epochs = 1;
  const Outcome before = train_on(1, setting);
  setting.epochs = 2;
  const Outcome one = train_on(1, setting);
  CHECK(one.weights != never);
  int64_t changed = 0, counted = 0;
  for (const auto& [name, sha256] : one.tensors) {
    INFO(name);
    const bool counter = name.ends_with("num_batches_tracked");
    (counter ? counted : changed) += sha256 != before.tensors.at(name) ? 1 : 0;
  }
  CHECK(changed + counted == static_cast<int64_t>(one.tensors.size()));
  for (const int ranks : {2, 3}) CHECK(train_on(ranks, setting).weights == one.weights);
  setting.freeze_until = {2, Duration::Unit::steps};  // the same time
  CHECK(train_on(2, setting).weights == one.weights);
  setting.freeze_until = {3, Duration::Unit::steps};
  CHECK(train_on(1, setting).weights != one.weights);
}

TEST_CASE("the average of the weights has the same bits on any ranks, through a thaw, and changes no weight") {
  Setting setting;
  setting.network = network_kind("unet");
  setting.task = Task::segmentation;
  setting.groups = {{.match = "down.*", .weight_decay = {}, .freeze = true}};
  setting.freeze_until = {1, Duration::Unit::epochs};
  const Outcome plain = train_on(1, setting);
  setting.ema.decay = 0.6;
  const Outcome one = train_on(1, setting);
  CHECK(one.weights == plain.weights);
  CHECK(one.average != plain.average);
  for (const int ranks : {2, 3, 4}) CHECK(train_on(ranks, setting).average == one.average);
  setting.ema.decay = 0.2;
  CHECK(train_on(1, setting).average != one.average);
}

TEST_CASE("where an optimizer looks at norms, weights have the same bits on any ranks") {
  for (const OptimizerKind* kind : optimizers()) {
    if (!kind->trust_ratio) continue;
    INFO(kind->name);
    Setting setting;
    setting.optimizer = kind;
    const Outcome one = train_on(1, setting);
    for (const int ranks : {2, 3, 4}) CHECK(train_on(ranks, setting).weights == one.weights);
  }
}

TEST_CASE("mixed pictures and labels have the same bits on any number of ranks, and others than unmixed ones",
          "[long]") {
  for (const Task task : {Task::multiclass, Task::multilabel, Task::segmentation}) {
    Setting setting;
    setting.network = task == Task::segmentation ? network_kind("unet") : network_kind("small_cnn");
    setting.task = task;
    setting.batch.per_rank = 3;
    const std::string plain = train_on(1, setting).weights;
    for (const MixOptions& mix :
         {MixOptions{.mixup = 0.4}, MixOptions{.cutmix = 1}, MixOptions{.mixup = 0.4, .cutmix = 1}}) {
      setting.mix = mix;
      const Outcome one = train_on(1, setting);
      CHECK(one.weights != plain);
      CHECK(std::isfinite(one.last_train_loss));
      for (const int ranks : {2, 3}) CHECK(train_on(ranks, setting).weights == one.weights);
    }
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

TEST_CASE("a loss that is not a number ends training on all ranks alike") {
  Setting setting;
  setting.learning_rate = 1e30;
  for (int ranks : {1, 3}) CHECK_THROWS_AS(train_on(ranks, setting), DivergedError);
}

TEST_CASE("a weight that an update has made infinite ends training in that step, by its name") {
  Setting setting;
  setting.learning_rate = 1e39;  // more than a float holds
  for (const int ranks : {1, 2})
    CHECK_THROWS_WITH(train_on(ranks, setting), Catch::Contains("after the update 0.weight is not finite in step 0;"));
}

// All losses are finite, so the check for NaN does not end it.
TEST_CASE("a loss that runs away ends training in the same step on any number of ranks, whatever on_nan says") {
  Setting setting;
  setting.optimizer = optimizer_kind("sgd");
  setting.learning_rate = 3;
  setting.epochs = 40;
  std::string sentence;
  for (const bool skip : {false, true})
    for (const int ranks : {1, 2, 4}) {
      setting.skip_not_finite = skip;
      try {
        train_on(ranks, setting);
        FAIL("training went on");
      } catch (const DivergedError& error) {
        INFO(error.what());
        CHECK_THAT(error.what(), Catch::Contains("the loss has run away: its mean over 2 steps is ") &&
                                     Catch::Contains("optimizer.learning_rate") && Catch::Contains("schedule.warmup") &&
                                     Catch::Contains("optimizer.clip_norm"));
        if (sentence.empty()) sentence = error.what();
        CHECK(error.what() == sentence);
      }
    }
}

TEST_CASE(
    "a step whose loss is no number is skipped where that is asked for, by all ranks, and its samples are named") {
  Setting setting;
  setting.poisoned = {6};
  CHECK_THROWS_WITH(train_on(2, setting), Catch::Contains("the loss of logical rank ") &&
                                              Catch::Contains("is not finite (") && Catch::Contains("in step "));
  setting.skip_not_finite = true;
  const Outcome one = train_on(1, setting);
  CHECK(one.not_finite.size() == 2);  // once per epoch
  for (const std::string& reason : one.not_finite) CHECK_THAT(reason, Catch::Contains("the loss of logical rank"));
  CHECK(std::isfinite(one.valid_loss));
  CHECK(std::isfinite(one.last_train_loss));
  CHECK(std::count_if(one.losses.begin(), one.losses.end(), [](double loss) { return std::isnan(loss); }) == 2);
  for (const int ranks : {2, 3}) CHECK(train_on(ranks, setting).weights == one.weights);
  Setting norms = setting;
  norms.network = network_kind("unet");
  norms.task = Task::segmentation;
  CHECK(std::isfinite(train_on(1, norms).valid_loss));  // running means and variances of the spoilt pass are dropped
  Setting clean = setting;
  clean.poisoned = {};
  const Outcome whole = train_on(1, clean);
  CHECK(whole.weights != one.weights);
  CHECK(whole.not_finite.empty());
  clean.skip_not_finite = false;
  CHECK(train_on(1, clean).weights == whole.weights);  // asking for it changes nothing where nothing is skipped
}

TEST_CASE("training that skips step after step ends all the same") {
  Setting setting;
  setting.skip_not_finite = true;
  setting.epochs = 5;
  for (int64_t sample = 0; sample < 17; ++sample) setting.poisoned.insert(sample);
  CHECK_THROWS_WITH(train_on(2, setting), Catch::Contains("the 10th step in a row"));
}

TEST_CASE("accumulation, clipping and momentum keep the bits on any number of ranks") {
  Setting setting;
  setting.network = network_kind("unet");
  setting.task = Task::segmentation;
  setting.optimizer = optimizer_kind("sgd");
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

TEST_CASE("the labels of what was judged are counted, and a prediction without a pixel is seen") {
  Predictions labels;
  labels.outputs = 2;
  labels.loss = {0, 0, 0};
  labels.labels = {1, 0, 1, std::numeric_limits<float>::quiet_NaN(), 0, 0};
  const LabelCounts counted = label_counts(labels, 0);
  CHECK(counted.positive == std::vector<double>{2, 0});
  CHECK(counted.negative == std::vector<double>{1, 2});
  CHECK(counted.samples == 3);
  CHECK_FALSE(nothing_predicted(labels));

  Predictions masks;  // two pictures of 8 pixels, two classes
  masks.outputs = 2;
  masks.loss = {0, 0};
  masks.pixels = {{0, 0, 3}, {0, 0, 1}, {0, 0, 2}, {0, 0, 0}};
  const LabelCounts pixels = label_counts(masks, 8);
  CHECK(pixels.positive == std::vector<double>{5, 1});
  CHECK(pixels.negative == std::vector<double>{11, 15});
  CHECK(pixels.samples == 16);
  CHECK(nothing_predicted(masks));
  Predictions some = masks;
  some.pixels[2].predicted = 1;
  CHECK_FALSE(nothing_predicted(some));
  masks.pixels.assign(4, {});  // nothing to find
  CHECK_FALSE(nothing_predicted(masks));
}
