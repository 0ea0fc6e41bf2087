// Passes that run as recorded graphs, over a graph that keeps the work's function and runs it again: what a GPU does
// with a launch. What the GPU itself adds is tests/gpu/gpu_graph_test.cpp's.
#include "dtrain/train/graphed_pass.hpp"

#include <ATen/ATen.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "small_job.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using test::Setting;
using test::SmallJob;
using test::weights_of;

namespace {

struct Counts {
  int graphs = 0;
  int records = 0;
  int replays = 0;
};

class FunctionGraph final : public DeviceGraph {
 public:
  explicit FunctionGraph(Counts& counts) : counts_(counts) { ++counts_.graphs; }
  void record(std::function<void()> work) override {
    ++counts_.records;
    work_ = std::move(work);
  }
  void replay() override {
    ++counts_.replays;
    work_();
  }

 private:
  Counts& counts_;
  std::function<void()> work_;
};

class Recorder final : public GpuModule {
 public:
  Counts counts;
  const FlatMath& math() const override { return host_math(); }
  NcclApi& nccl() override { throw InternalError("nobody asks for NCCL here"); }
  std::unique_ptr<DeviceGraph> make_graph() override { return std::make_unique<FunctionGraph>(counts); }
  void use_device(int) override {}
  double memory_peak_mb() const override { return 0; }
  double memory_free_mb() const override { return 0; }
  std::string cuda_version() const override { return ""; }
};

// y += x², and what the pass tells is x and Σx².
GraphedPass::Result square(at::Tensor& sum, const at::Tensor& x) {
  sum.add_(x * x);
  return {x.clone(), (x * x).sum(1)};
}

at::Tensor batch(int64_t rows, float value) { return at::full({rows, 3}, value); }

}  // namespace

TEST_CASE("the first pass is recorded, the second runs both ways, the third is a replay; all have the plain values") {
  Counts counts;
  at::Tensor sum = at::zeros({2, 3});
  int calls = 0;
  GraphedPass pass(std::make_unique<FunctionGraph>(counts),
                   [&](const at::Tensor& x, const at::Tensor&) {
                     ++calls;
                     return square(sum, x);
                   },
                   {sum});
  const at::Tensor targets = at::zeros({2});
  float wanted = 0;
  for (int i = 1; i <= 5; ++i) {
    const auto value = static_cast<float>(i);
    const GraphedPass::Result result = pass.run(batch(2, value), targets);
    wanted += value * value;
    CHECK(sum.eq(wanted).all().item<bool>());
    CHECK(result.logits.eq(value).all().item<bool>());
    CHECK(result.losses.eq(3 * value * value).all().item<bool>());
    CHECK(counts.records == 1);
    CHECK(counts.replays == i - 1);
    CHECK(calls == (i == 1 ? 1 : i + 1));
  }
  CHECK(pass.fits(batch(2, 1), targets));
  CHECK_FALSE(pass.fits(batch(1, 1), at::zeros({1})));
  CHECK_THROWS_AS(pass.run(batch(1, 1), at::zeros({1})), InternalError);
}

TEST_CASE("a graph that keeps what belongs to one batch fails its proof") {
  Counts counts;
  at::Tensor sum = at::zeros({2, 3});
  int drawn = 0;
  const auto fails = [&](const GraphedPass::Work& work) {
    GraphedPass pass(std::make_unique<FunctionGraph>(counts), work, {sum});
    pass.run(batch(2, 1), at::zeros({2}));
    CHECK_THROWS_WITH(pass.run(batch(2, 2), at::zeros({2})), Catch::Contains("cuda_graphs: false"));
  };
  // Each call draws another number: in the gradients, in the logits, in the losses.
  fails([&](const at::Tensor& x, const at::Tensor&) {
    sum.add_(static_cast<double>(++drawn));
    return GraphedPass::Result{x.clone(), x.sum(1)};
  });
  fails([&](const at::Tensor& x, const at::Tensor&) {
    return GraphedPass::Result{x + static_cast<double>(++drawn), x.sum(1)};
  });
  fails([&](const at::Tensor& x, const at::Tensor&) {
    return GraphedPass::Result{x.clone(), x.sum(1) + static_cast<double>(++drawn)};
  });
}

TEST_CASE("values that are not finite prove as well as others") {
  Counts counts;
  at::Tensor sum = at::zeros({2, 3});
  GraphedPass pass(std::make_unique<FunctionGraph>(counts),
                   [&](const at::Tensor& x, const at::Tensor&) { return square(sum, x); }, {sum});
  for (int i = 0; i < 3; ++i) CHECK_NOTHROW(pass.run(batch(2, NAN), at::zeros({2})));
  CHECK(counts.replays == 2);
}

TEST_CASE("a training through graphs has the bits of a plain one: any precision, ranks, accumulation") {
  struct Case {
    Precision precision;
    int64_t logical_ranks;
    int64_t accumulate;
    NetworkName network;
    MixOptions mix = {};
  };
  for (const Case& each :
       {Case{Precision::fp32, 1, 1, NetworkName::small_cnn}, Case{Precision::fp32, 3, 1, NetworkName::unet},
        Case{Precision::bf16, 2, 2, NetworkName::small_cnn},
        Case{Precision::fp32, 2, 1, NetworkName::small_cnn, {0.4, 1}},
        Case{Precision::fp16, 4, 1, NetworkName::small_cnn}})
    for (int ranks = 1; ranks <= 2; ++ranks) {
      if (ranks > each.logical_ranks || (ranks > 1 && each.precision == Precision::fp16)) continue;
      INFO("precision " << static_cast<int>(each.precision) << ", V " << each.logical_ranks << ", accumulation "
                        << each.accumulate << ", ranks " << ranks);
      Setting setting;
      setting.network = each.network;
      setting.precision = each.precision;
      setting.logical_ranks = each.logical_ranks;
      setting.accumulate = each.accumulate;
      setting.dropout = 0;
      setting.mix = each.mix;
      if (each.precision == Precision::fp16) setting.first_scale = 0x1p18;  // overflows, is halved: the divisor moves
      const int steps = each.precision == Precision::fp16 ? 5 : 9;  // epochs end in short batches
      int skipped = 0;
      const auto trained = [&](Recorder* recorder) {
        at::Tensor weights;
        run_ranks(ranks, [&](Communicator& comm) {
          Setting own = setting;
          own.recorder = comm.rank() == 0 ? recorder : nullptr;  // a rank's graphs are its own affair
          SmallJob job(own, comm);
          for (int i = 0; i < steps; ++i)
            if (job.step().skipped && comm.rank() == 0) ++skipped;
          if (comm.rank() == 0) weights = weights_of(job.replica()).clone();
        });
        return weights;
      };
      Recorder recorder;
      const at::Tensor with = trained(&recorder);
      CHECK(recorder.counts.graphs >= 1);
      CHECK(recorder.counts.replays > recorder.counts.graphs);
      CHECK(at::equal(with, trained(nullptr)));
      if (each.precision == Precision::fp16) CHECK((skipped > 0 && skipped < 2 * steps));
    }
}
