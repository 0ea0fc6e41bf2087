// Training with a loss that is a function of sums over the whole step's batch.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <numeric>
#include <set>
#include <stdexcept>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/model/layers.hpp"
#include "dtrain/train/evaluate.hpp"
#include "dtrain/train/trainer.hpp"
#include "poisoned_batches.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

// Two convolutions, with dropout between them where it is asked for, and without BatchNorm. Notes what it has given.
class PlainNetwork final : public Network {
 public:
  explicit PlainNetwork(double dropout) : dropout_(dropout) {
    first_ = register_module("first", std::make_shared<Conv2d>(ConvShape{1, 4, 3, 1, 1, true}));
    head_ = register_module("head", std::make_shared<Conv2d>(ConvShape{4, 1, 3, 1, 1, true}));
    const at::NoGradGuard no_grad;
    double number = 0;
    for (const NamedTensor& parameter : named_parameters())
      at::Tensor(parameter.tensor)
          .copy_(at::arange(parameter.tensor.numel()).add(++number).sin().view_as(parameter.tensor) / 3);
  }
  at::Tensor forward(const at::Tensor& images) override {
    given.push_back((*head_)(dropout_((*first_)(images).relu())));
    return given.back();
  }
  void set_random_key(uint64_t seed, int64_t step, int64_t logical_rank) override {
    dropout_.set_key(seed, step, logical_rank);
  }
  std::vector<Layer> layers(const NetworkShape&) const override { return {}; }
  PassTape tape(const NetworkShape&, bool) const override { return {}; }
  GraphValue trace(const GraphValue& images) const override { return images; }
  std::vector<std::string> head() const override { return {}; }

  std::vector<at::Tensor> given;

 private:
  std::shared_ptr<Conv2d> first_, head_;
  KeyedDropout dropout_;
};

struct LossSetting {
  std::string loss = "dice";
  SumsOver over = SumsOver::global;
  int64_t logical_ranks = 4;
  BatchOptions batch{.per_rank = 2};
  bool plain = false;  // PlainNetwork instead of a small UNet
  double dropout = 0;
  Precision precision = Precision::fp32;
  MixOptions mix = {};
  std::set<int64_t> poisoned = {};  // samples whose pictures are NaN
  double rate = 0.01;
};

// The fewer pixels a gradient is summed over, the less it is rounded.
DataOptions drawn_pictures(const LossSetting& setting) {
  DataOptions data;
  data.format = format_named("synthetic");
  data.synthetic = {21, 1};
  data.image.height = data.image.width = setting.plain ? 16 : 32;
  data.image.channels = 1;
  data.image.mean = data.image.std = {0.5};
  data.loader.threads = 1;
  return data;
}

/// 17 pictures to train, 4 to validate, on the calling rank.
class Job {
 public:
  Job(const LossSetting& setting, Communicator& comm)
      : data_(drawn_pictures(setting)),
        dataset_(open_dataset(data_, Task::segmentation, 5)),
        train_(17),
        valid_(4),
        replica_(network_of(setting), at::MemoryFormat::ChannelsLast, optimizer_, {}, setting.precision),
        loss_(options_of(setting), Task::segmentation, {}),
        schedule_({}, setting.rate, 1, 1, 2),
        loader_(dataset_, data_, 5, at::MemoryFormat::ChannelsLast, trace_),
        batches_(loader_, setting.poisoned),
        comm_(comm) {
    at::set_num_threads(1);
    std::iota(train_.begin(), train_.end(), 0);
    std::iota(valid_.begin(), valid_.end(), 17);
    trainer_ = std::make_unique<Trainer>(
        Trainer::Parts{replica_, loss_, schedule_, batches_, comm, watchdog_, dataset_, train_, trace_},
        Trainer::Options{.task = Task::segmentation,
                         .seed = 5,
                         .logical_ranks = setting.logical_ranks,
                         .distributed = DistributedOptions{.bucket_mb = 0.05},
                         .batch = setting.batch,
                         .mix = setting.mix,
                         .adds_up_first = adds_up_first(options_of(setting), Task::segmentation,
                                                        setting.logical_ranks * setting.batch.accumulate)},
        comm.duplicate());
    trainer_->begin_epoch(state_);
  }

  StepReport step() { return trainer_->step(state_, StopRequest::none); }

  /// Trains two epochs; the steps' losses, the result's hash and the validation loss as text.
  std::string result() {
    std::string text;
    for (int epoch = 0; epoch < 2; ++epoch) {
      if (epoch > 0) trainer_->begin_epoch(state_);
      while (trainer_->steps_left() > 0) text += std::to_string(step().loss) + " ";
      trainer_->end_epoch(state_);
    }
    // Ranks are threads here, which Catch2's assertions are not for.
    if (replica_.steps_tracked() != (replica_.flat_buffers().numel() > 0 ? state_.step : 0))
      throw std::runtime_error("the norms have counted other steps than were taken");
    return text + std::to_string(valid_loss(3)) + " " + replica_.sha256();
  }

  double valid_loss(int64_t batch) {
    return mean_loss(evaluate({.replica = replica_,
                               .loss = loss_,
                               .task = Task::segmentation,
                               .loader = batches_,
                               .samples = valid_,
                               .batch = batch,
                               .comm = comm_,
                               .watchdog = watchdog_,
                               .step = state_.step})
                         .value());
  }

  Replica& replica() { return replica_; }
  at::Tensor weights() {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& parameter : replica_.parameters()) flat.push_back(parameter.detach().flatten());
    return at::cat(flat);
  }

 private:
  static LossOptions options_of(const LossSetting& setting) {
    LossOptions options;
    options.kind = loss_kind(setting.loss);
    options.sums_over = setting.over;
    return options;
  }
  static std::shared_ptr<Network> network_of(const LossSetting& setting) {
    if (setting.plain) return std::make_shared<PlainNetwork>(setting.dropout);
    ModelOptions model;
    model.kind = network_kind("unet");
    model.base_width = 2;
    return make_network(model, {1, 32, 32, 1}, 7);
  }
  static OptimizerOptions plain_descent() {
    OptimizerOptions optimizer;
    optimizer.kind = optimizer_kind("sgd");
    return optimizer;
  }

  DataOptions data_;
  OptimizerOptions optimizer_ = plain_descent();
  Dataset dataset_;
  std::vector<int64_t> train_, valid_;
  Replica replica_;
  Loss loss_;
  Schedule schedule_;
  Trace trace_{false};
  Loader loader_;
  PoisonedBatches batches_;
  Communicator& comm_;
  Watchdog watchdog_{{}, {}};
  TrainingState state_;
  std::unique_ptr<Trainer> trainer_;
};

std::string result_on(int ranks, const LossSetting& setting) {
  std::vector<std::string> results(static_cast<size_t>(ranks));
  run_ranks(ranks,
            [&](Communicator& comm) { results[static_cast<size_t>(comm.rank())] = Job(setting, comm).result(); });
  for (const std::string& result : results) REQUIRE(result == results[0]);
  return results[0];
}

// The gradient of the first step, by a step so long that the weights before it do not round it.
at::Tensor first_gradient(LossSetting setting, int64_t logical_ranks) {
  const auto comm = make_serial_communicator();
  setting.plain = true;
  setting.logical_ranks = logical_ranks;
  setting.batch.per_rank = 8 / logical_ranks;
  setting.rate = 65536;
  Job job(setting, *comm);
  const at::Tensor before = job.weights().to(at::kDouble);
  job.step();
  return (before - job.weights()) / setting.rate;
}

double distance(const at::Tensor& a, const at::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

}  // namespace

TEST_CASE("V cuts nothing of a batch loss: the gradient of a network is that of one rank with the whole batch") {
  for (const std::string loss : {"dice", "bce_dice"}) {
    const at::Tensor whole = first_gradient({.loss = loss}, 1);
    for (const int64_t v : {2, 8}) {
      INFO(loss << ", V = " << v);
      CHECK(distance(first_gradient({.loss = loss}, v), whole) < 1e-6);
      const double apart = distance(first_gradient({.loss = loss, .over = SumsOver::per_rank}, v), whole);
      CAPTURE(apart);
      CHECK(apart > 1e-3);
    }
  }
}

TEST_CASE("a batch loss has the same bits on 1, 2, 3 and 4 ranks, with passes, mixing and 16 bits too", "[long]") {
  LossSetting accumulated{.loss = "bce_dice"}, mixed, in_16_bits, per_rank{.over = SumsOver::per_rank};
  accumulated.batch.accumulate = 2;
  mixed.mix = {.mixup = 0.4};
  in_16_bits.precision = Precision::bf16;
  std::string last;
  for (const LossSetting& setting : {LossSetting{}, accumulated, mixed, in_16_bits, per_rank}) {
    const std::string one = result_on(1, setting);
    CHECK(one != last);
    last = one;
    for (const int ranks : {2, 3, 4}) CHECK(result_on(ranks, setting) == one);
  }
}

TEST_CASE("both passes of a step give the same logits, dropout's included, and BatchNorm moves once") {
  const auto comm = make_serial_communicator();
  Job job({.plain = true, .dropout = 0.5}, *comm);
  job.step();
  const auto& given = dynamic_cast<PlainNetwork&>(job.replica().network()).given;
  REQUIRE(given.size() == 8);
  for (size_t i = 0; i < 4; ++i) {
    CHECK_FALSE(given[i].requires_grad());
    CHECK(at::equal(given[i], given[i + 4]));
    CHECK_FALSE(at::equal(given[i], given[(i + 1) % 4]));
  }
  Job batch_loss({}, *comm), other({.loss = "bce"}, *comm);
  batch_loss.step();
  other.step();
  CHECK(at::equal(batch_loss.replica().flat_buffers(), other.replica().flat_buffers()));
  CHECK(batch_loss.replica().steps_tracked() == 1);
}

TEST_CASE("per_rank and a single pass need no further pass") {
  const auto comm = make_serial_communicator();
  for (const auto& [over, v, passes] : {std::tuple{SumsOver::per_rank, 4, 4}, {SumsOver::global, 1, 1}}) {
    Job job({.over = over, .logical_ranks = v, .plain = true}, *comm);
    job.step();
    CHECK(dynamic_cast<PlainNetwork&>(job.replica().network()).given.size() == static_cast<size_t>(passes));
  }
}

TEST_CASE("the loss of an evaluated part is that of the part as one batch, whatever batches it is cut into") {
  const auto comm = make_serial_communicator();
  Job job({}, *comm);
  const double whole = job.valid_loss(4);
  CHECK(whole > 0);
  CHECK(whole < 1);
  for (const int64_t batch : {1, 3}) CHECK(job.valid_loss(batch) == Approx(whole).epsilon(1e-6));
}

TEST_CASE("a batch loss that is not finite names the logical rank whose pictures made it so") {
  const auto comm = make_serial_communicator();
  LossSetting setting;
  setting.poisoned = {3};
  Job bad(setting, *comm);
  setting.loss = "bce";
  Job plain(setting, *comm);
  std::string message;
  try {
    for (int i = 0; i < 2; ++i) plain.step();
  } catch (const DivergedError& error) {
    message = error.what();
  }
  REQUIRE_THAT(message, Catch::Contains("the loss of logical rank"));
  const auto until = message.find(')');
  CHECK_THROWS_WITH(
      [&] {
        for (int i = 0; i < 2; ++i) bad.step();
      }(),
      Catch::Contains(message.substr(0, until)));
}
