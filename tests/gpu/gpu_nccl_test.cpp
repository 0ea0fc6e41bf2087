#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/nccl_communicator.hpp"
#include "gpu.hpp"

using namespace dtrain;

// NCCL refuses two ranks on one GPU, so this shows with one rank that it starts, sums and ends. gpu_check runs as many
// ranks as there are GPUs.
TEST_CASE("NCCL starts, adds up and ends with one rank") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  const auto host = make_serial_communicator();
  const auto comm = make_nccl_communicator(gpu->module->nccl(), *host, 60);
  at::Tensor values = at::arange(1000, at::kFloat).to(gpu->place);
  comm->all_reduce(values);
  comm->require_healthy();
  comm->gather_slices(values);
  comm->require_healthy();
  CHECK(at::equal(values.cpu(), at::arange(1000, at::kFloat)));
  const auto ring = make_nccl_communicator(gpu->module->nccl(), *host, 60, true);
  ring->all_reduce(values);
  ring->require_healthy();
  CHECK(at::equal(values.cpu(), at::arange(1000, at::kFloat)));
  for (const Reduction reduction : {Reduction::canonical, Reduction::ring, Reduction::fastest}) {
    const auto sum = make_bucket_sum(reduction, *comm, *gpu, 2, 1000);
    sum->begin(CanonicalTree({true, true}));
    for (const FoldPlan::Pass& pass : sum->plan().passes) {
      sum->buffer(pass.buffer).fill_(static_cast<float>(pass.leaf + 1));
      for (const FoldPlan::Add& add : pass.adds) sum->add(add.into, add.from);
    }
    sum->sum({0, 1000});
    CHECK(at::equal(sum->buffer(0).cpu(), at::full({1000}, 3.0F)));
  }
}
