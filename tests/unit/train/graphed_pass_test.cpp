// Passes that run as recorded graphs, with a graph that keeps the work's function and runs it again, as a GPU does with
// a launch, in one memory for all graphs (graph_memory.hpp). What only a GPU can show is in
// tests/gpu/gpu_graph_test.cpp.
#include "dtrain/train/graphed_pass.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "graph_memory.hpp"
#include "small_job.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using test::JobSetting;
using test::SmallJob;
using test::weights_of;

namespace {

struct Counts {
  int graphs = 0;
  int records = 0;
  int replays = 0;
  int given_back = 0;
};

class FunctionGraph final : public DeviceGraph {
 public:
  FunctionGraph(Counts& counts, test::GraphMemory& memory) : counts_(counts), memory_(memory) { ++counts_.graphs; }
  void record(std::function<void()> work) override {
    ++counts_.records;
    work_ = std::move(work);
  }
  Mark mark() override { return nullptr; }
  void replay() override {
    ++counts_.replays;
    memory_.run(this, work_);
  }
  bool overwritten() const override { return memory_.ran_last() != nullptr && memory_.ran_last() != this; }
  void give_back_memory() override { ++counts_.given_back; }

 private:
  Counts& counts_;
  test::GraphMemory& memory_;
  std::function<void()> work_;
};

class Recorder final : public GpuModule {
 public:
  Counts counts;
  test::GraphMemory memory;
  const FlatMath& math() const override { return host_math(); }
  const NormMath& norms() const override { throw InternalError("nobody asks for norms on a CPU"); }
  NcclApi& nccl() override { throw InternalError("nobody asks for NCCL here"); }
  std::unique_ptr<DeviceGraph> make_graph() override { return std::make_unique<FunctionGraph>(counts, memory); }
  c10::Device use_device(int) override { return c10::kCPU; }
  double memory_peak_mb() const override { return 0; }
  double memory_free_mb() const override { return 0; }
  std::string cuda_version() const override { return ""; }
};

// y += x², and the pass returns x and Σx².
GraphedPass::Result square(at::Tensor& sum, const at::Tensor& x) {
  sum.add_(x * x);
  return {x.clone(), (x * x).sum(1)};
}

at::Tensor batch(int64_t rows, float value) { return at::full({rows, 3}, value); }

}  // namespace

TEST_CASE("the first pass is recorded, the second runs both ways, the third is a replay; all have the plain values") {
  Counts counts;
  test::GraphMemory memory;
  at::Tensor sum = at::zeros({2, 3});
  int calls = 0;
  GraphedPass pass(std::make_unique<FunctionGraph>(counts, memory),
                   [&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) {
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
  CHECK(counts.given_back == 1);
  CHECK(pass.fits(batch(2, 1), targets));
  CHECK_FALSE(pass.fits(batch(1, 1), at::zeros({1})));
  CHECK_THROWS_AS(pass.run(batch(1, 1), at::zeros({1})), InternalError);
}

TEST_CASE("a graph that keeps what belongs to one batch fails its proof") {
  Counts counts;
  test::GraphMemory memory;
  at::Tensor sum = at::zeros({2, 3});
  int drawn = 0;
  const auto fails = [&](const GraphedPass::Work& work) {
    GraphedPass pass(std::make_unique<FunctionGraph>(counts, memory), work, {sum});
    pass.run(batch(2, 1), at::zeros({2}));
    CHECK_THROWS_WITH(pass.run(batch(2, 2), at::zeros({2})), Catch::Contains("cuda_graphs: false"));
  };
  // Each call draws another number: in the gradients, in the logits, in the losses.
  fails([&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) {
    sum.add_(static_cast<double>(++drawn));
    return GraphedPass::Result{x.clone(), x.sum(1)};
  });
  fails([&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) {
    return GraphedPass::Result{x + static_cast<double>(++drawn), x.sum(1)};
  });
  fails([&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) {
    return GraphedPass::Result{x.clone(), x.sum(1) + static_cast<double>(++drawn)};
  });
}

TEST_CASE("a result is there until another graph runs, and all graphs together need the memory of one") {
  Counts counts;
  test::GraphMemory memory;
  at::Tensor sum = at::zeros({2, 3});
  const auto make = [&] {
    return GraphedPass(std::make_unique<FunctionGraph>(counts, memory),
                       [&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) { return square(sum, x); }, {sum});
  };
  GraphedPass first = make();
  GraphedPass second = make();
  const at::Tensor targets = at::zeros({2});
  GraphedPass::Result of_first;
  for (int i = 1; i <= 4; ++i) {
    const auto value = static_cast<float>(i);
    of_first = first.run(batch(2, value), targets);
    CHECK(of_first.logits.eq(value).all().item<bool>());
    CHECK(of_first.losses.eq(3 * value * value).all().item<bool>());
    const GraphedPass::Result of_second = second.run(batch(2, 10 * value), targets);
    CHECK(of_second.logits.eq(10 * value).all().item<bool>());
  }
  CHECK_FALSE(of_first.logits.eq(4).any().item<bool>());
  CHECK_FALSE(of_first.losses.eq(48).any().item<bool>());
  CHECK(sum.eq(101 * (1 + 4 + 9 + 16)).all().item<bool>());
}

TEST_CASE("a graph is proved again when another has run in its memory, once") {
  Counts counts;
  test::GraphMemory memory;
  at::Tensor sum = at::zeros({2, 3});
  int calls = 0;
  const auto work = [&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) {
    ++calls;
    return square(sum, x);
  };
  GraphedPass first(std::make_unique<FunctionGraph>(counts, memory), work, {sum});
  GraphedPass second(std::make_unique<FunctionGraph>(counts, memory), work, {sum});
  const auto calls_of = [&](GraphedPass& pass) {
    const int before = calls;
    pass.run(batch(2, 1), at::zeros({2}));
    return calls - before;
  };
  for (GraphedPass* pass : {&first, &second})
    for (const int wanted : {1, 2, 1, 1}) CHECK(calls_of(*pass) == wanted);
  for (const int wanted : {2, 1, 1}) {
    CHECK(calls_of(first) == wanted);
    CHECK(calls_of(second) == wanted);
  }
  CHECK(counts.given_back == 4);
}

TEST_CASE("a graph that leaves something for its next run fails its proof when another has run in between") {
  Counts counts;
  test::GraphMemory memory;
  at::Tensor sum = at::zeros({2, 3});
  at::Tensor left = at::full({1}, 5);
  GraphedPass first(std::make_unique<FunctionGraph>(counts, memory),
                    [&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) {
                      const at::Tensor losses = x.sum(1) + left;
                      left = at::full({1}, 5);  // in the graph's memory, from its first run on
                      return GraphedPass::Result{x.clone(), losses};
                    },
                    {sum});
  GraphedPass second(std::make_unique<FunctionGraph>(counts, memory),
                     [&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) { return square(sum, x); }, {sum});
  for (int i = 1; i <= 4; ++i) CHECK_NOTHROW(first.run(batch(2, 1), at::zeros({2})));
  for (int i = 1; i <= 3; ++i) CHECK_NOTHROW(second.run(batch(2, 1), at::zeros({2})));
  CHECK_THROWS_WITH(first.run(batch(2, 1), at::zeros({2})), Catch::Contains("cuda_graphs: false"));
}

TEST_CASE("values that are not finite prove as well as others") {
  Counts counts;
  test::GraphMemory memory;
  at::Tensor sum = at::zeros({2, 3});
  GraphedPass pass(std::make_unique<FunctionGraph>(counts, memory),
                   [&](const at::Tensor& x, const at::Tensor&, DeviceGraph*) { return square(sum, x); }, {sum});
  for (int i = 0; i < 3; ++i) CHECK_NOTHROW(pass.run(batch(2, NAN), at::zeros({2})));
  CHECK(counts.replays == 2);
}

TEST_CASE("a training through graphs has the bits of a plain one: any precision, ranks, accumulation", "[long]") {
  struct Case {
    Precision precision;
    int64_t logical_ranks;
    int64_t accumulate;
    const NetworkKind* network;
    MixOptions mix = {};
  };
  for (const Case& each :
       {Case{Precision::fp32, 1, 1, network_kind("small_cnn")}, Case{Precision::fp32, 3, 1, network_kind("unet")},
        Case{Precision::bf16, 2, 2, network_kind("small_cnn")},
        Case{Precision::fp32, 2, 1, network_kind("small_cnn"), {0.4, 1}},
        Case{Precision::fp16, 4, 1, network_kind("small_cnn")}})
    for (int ranks = 1; ranks <= 2; ++ranks) {
      if (ranks > each.logical_ranks || (ranks > 1 && each.precision == Precision::fp16)) continue;
      INFO("precision " << static_cast<int>(each.precision) << ", V " << each.logical_ranks << ", accumulation "
                        << each.accumulate << ", ranks " << ranks);
      JobSetting setting;
      setting.network = each.network;
      setting.precision = each.precision;
      setting.logical_ranks = each.logical_ranks;
      setting.accumulate = each.accumulate;
      setting.dropout = 0;
      setting.mix = each.mix;
      if (each.precision == Precision::fp16) setting.first_scale = 0x1p18;  // overflows, is halved: the divisor moves
      const int steps = each.precision == Precision::fp16 ? 5 : 9;          // epochs end in short batches
      int skipped = 0;
      struct Trained {
        at::Tensor weights;
        std::vector<double> losses;  // of each step
      };
      const auto trained = [&](Recorder* recorder) {
        Trained of_first;
        run_ranks(ranks, [&](Communicator& comm) {
          JobSetting own = setting;
          own.recorder = comm.rank() == 0 ? recorder : nullptr;  // each rank may use graphs or not
          SmallJob job(own, comm);
          std::vector<double> losses;
          for (int i = 0; i < steps; ++i) {
            const auto done = job.step();
            losses.push_back(done.loss);
            if (done.skipped && comm.rank() == 0) ++skipped;
          }
          if (comm.rank() == 0) of_first = {weights_of(job.replica()).clone(), losses};
        });
        return of_first;
      };
      Recorder recorder;
      const Trained with = trained(&recorder);
      const Trained without = trained(nullptr);
      CHECK(recorder.counts.graphs >= 1);
      CHECK(recorder.counts.replays > recorder.counts.graphs);
      CHECK(at::equal(with.weights, without.weights));
      CHECK(with.losses == without.losses);
      if (each.precision == Precision::fp16) CHECK((skipped > 0 && skipped < 2 * steps));
    }
}
