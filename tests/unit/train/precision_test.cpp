// Reduced precision in whole training steps: loss scaling, skipped updates, and the bits of any number of ranks.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "small_job.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using test::JobSetting;
using test::kRate;
using test::SmallJob;
using test::weights_of;

namespace {

// What the first step of a job by itself adds to the weights.
at::Tensor first_change(const JobSetting& setting) {
  const auto comm = make_serial_communicator();
  SmallJob job(setting, *comm);
  const at::Tensor before = weights_of(job.replica());
  REQUIRE_FALSE(job.step().skipped);
  return weights_of(job.replica()) - before;
}

JobSetting plain_sgd(Precision precision, double first_scale = LossScale::kFirst) {
  JobSetting setting;
  setting.precision = precision;
  setting.first_scale = first_scale;
  setting.optimizer = optimizer_kind("sgd");
  return setting;
}

double distance_of(const at::Tensor& a, const at::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

}  // namespace

TEST_CASE("16-bit training has the same bits on 1, 2, 3 and 4 ranks, skipped updates included", "[long]") {
  struct Outcome {
    std::string weights;
    std::vector<double> losses;
    std::vector<bool> skipped;
    double valid_loss = 0;
  };
  for (const NetworkKind* network : {network_kind("small_cnn"), network_kind("unet")})
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      JobSetting setting;
      setting.network = network;
      setting.precision = precision;
      setting.first_scale = 0x1p18;  // too large at first
      const auto train_on = [&](int ranks) {
        std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
        run_ranks(ranks, [&](Communicator& comm) {
          SmallJob job(setting, comm);
          Outcome& outcome = outcomes[static_cast<size_t>(comm.rank())];
          for (int i = 0; i < 5; ++i) {
            const StepReport report = job.step();
            outcome.losses.push_back(report.loss);
            outcome.skipped.push_back(report.skipped);
          }
          outcome.valid_loss = job.valid_loss(SmallJob::task_of(setting));
          outcome.weights = job.replica().sha256();
        });
        for (const Outcome& outcome : outcomes) REQUIRE(outcome.weights == outcomes[0].weights);
        return outcomes[0];
      };
      const Outcome one = train_on(1);
      INFO(network->name << ", precision " << static_cast<int>(precision));
      CHECK(one.skipped.front() == (precision == Precision::fp16));
      CHECK_FALSE(one.skipped.back());
      // Half a second a step where the processor has no float16 products: the UNet's on 3 ranks alone.
      const bool slow = network->per_pixel && precision == Precision::fp16;
      for (const int ranks : slow ? std::vector<int>{3} : std::vector<int>{2, 3, 4}) {
        const Outcome more = train_on(ranks);
        CHECK(more.weights == one.weights);
        CHECK(more.losses == one.losses);
        CHECK(more.skipped == one.skipped);
        CHECK(more.valid_loss == one.valid_loss);
      }
    }
}

TEST_CASE("an overflow leaves weights and optimizer alone, halves the scale, and the step counts") {
  JobSetting setting;
  constexpr double kFirst = 0x1p20;  // too large
  setting.first_scale = kFirst;
  const auto comm = make_serial_communicator();
  SmallJob job(setting, *comm);
  const at::Tensor before = weights_of(job.replica());
  const StepReport skipped = job.step();
  CHECK(skipped.skipped);
  CHECK(skipped.loss_scale == kFirst);
  CHECK(std::isfinite(skipped.loss));
  CHECK(at::equal(weights_of(job.replica()), before));
  for (const Optimizer::State& state : job.replica().optimizer().state())
    CHECK(state.values.abs().max().item<float>() == 0);
  CHECK(job.replica().optimizer().updates() == 0);
  CHECK(job.state().optimizer_updates == 0);
  CHECK(job.state().loss_scale.scale == kFirst / 2);
  CHECK(job.state().skipped_steps == 1);
  CHECK(job.state().step == 1);
  CHECK(job.state().cursor == 8);
  StepReport report = skipped;
  for (int i = 0; i < 32 && report.skipped; ++i) report = job.step();
  CHECK_FALSE(report.skipped);
  CHECK(job.replica().optimizer().updates() == 1);
  CHECK(job.state().loss_scale.scale == *report.loss_scale);
  CHECK(job.state().loss_scale.good_steps == 1);
  CHECK_FALSE(at::equal(weights_of(job.replica()), before));
}

TEST_CASE("only fp16 scales the loss") {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    JobSetting setting;
    setting.precision = precision;
    setting.first_scale = LossScale::kMost;
    const auto comm = make_serial_communicator();
    SmallJob job(setting, *comm);
    const StepReport report = job.step();
    CHECK_FALSE(report.skipped);
    CHECK_FALSE(report.loss_scale);
    CHECK(job.state().loss_scale.good_steps == 0);
  }
}

TEST_CASE("an update does not depend on the scale, and is float32's to rounding") {
  const at::Tensor plain = first_change(plain_sgd(Precision::fp32));
  const at::Tensor small = first_change(plain_sgd(Precision::fp16, 256));
  const at::Tensor large = first_change(plain_sgd(Precision::fp16, 65536));
  CHECK(distance_of(small, plain) < 0.02);
  CHECK(distance_of(large, plain) < 0.02);
  // The scale was there: at the least one small gradients are rounded differently, on every processor.
  CHECK_FALSE(at::equal(first_change(plain_sgd(Precision::fp16, LossScale::kLeast)), large));
  CHECK(distance_of(first_change(plain_sgd(Precision::bf16)), plain) < 0.1);
}

TEST_CASE("clipping sees the norm of the unscaled gradients") {
  for (const double scale : {256.0, 65536.0}) {
    JobSetting setting = plain_sgd(Precision::fp16, scale);
    const double norm = first_change(setting).norm().item<double>() / kRate;
    setting.clip_norm = norm / 8;
    CHECK(first_change(setting).norm().item<double>() / kRate == Approx(norm / 8).epsilon(1e-3));
    setting.clip_norm = norm * 8;
    CHECK(first_change(setting).norm().item<double>() / kRate == Approx(norm).epsilon(1e-3));
  }
}

TEST_CASE("the penalty on kernels is not scaled") {
  const auto with_penalty = [](JobSetting setting) {
    setting.l2_kernels = 0.5;
    return first_change(setting);
  };
  const at::Tensor plain = with_penalty(plain_sgd(Precision::fp32)) - first_change(plain_sgd(Precision::fp32));
  const at::Tensor scaled = with_penalty(plain_sgd(Precision::fp16)) - first_change(plain_sgd(Precision::fp16));
  CHECK(distance_of(scaled, plain) < 1e-3);
}

TEST_CASE("gradients that overflow at the least scale, and a loss that is not a number, end training on all ranks") {
  JobSetting setting;
  setting.pos_weight = 1e9;  // the loss stays finite in float32, its gradient is beyond float16
  setting.first_scale = LossScale::kLeast;
  for (int ranks : {1, 3})
    CHECK_THROWS_AS(run_ranks(ranks, [&](Communicator& comm) { SmallJob(setting, comm).step(); }), DivergedError);
  setting.pos_weight = 1e39;  // infinite in float32
  setting.first_scale = LossScale::kFirst;
  for (int ranks : {1, 3})
    CHECK_THROWS_AS(run_ranks(ranks, [&](Communicator& comm) { SmallJob(setting, comm).step(); }), DivergedError);
}

TEST_CASE("a rank whose loss scale is another's is found") {
  const JobSetting setting;
  const auto run = [&](const LossScale& of_rank_1) {
    run_ranks(2, [&](Communicator& comm) {
      SmallJob job(setting, comm);
      if (comm.rank() == 1) job.replica().loss_scale() = of_rank_1;
      job.step();
    });
  };
  CHECK_NOTHROW(run(LossScale{}));
  CHECK_THROWS_WITH(run(LossScale{LossScale::kFirst / 2, 0}), Catch::Contains("loss_scale"));
  CHECK_THROWS_WITH(run(LossScale{LossScale::kFirst, 1}), Catch::Contains("loss_scale"));
}

TEST_CASE("a broadcast carries the loss scale") {
  run_ranks(2, [&](Communicator& comm) {
    SmallJob job(JobSetting{}, comm);
    if (comm.rank() == 0) job.replica().loss_scale() = {4096, 12};
    job.replica().broadcast_from(comm, 0);
    if (job.replica().loss_scale().scale != 4096 || job.replica().loss_scale().good_steps != 12)
      throw InternalError("the loss scale did not arrive");
  });
}
