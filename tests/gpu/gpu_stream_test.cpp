#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <thread>

#include "dtrain/device/side_stream.hpp"
#include "gpu.hpp"

using namespace dtrain;

TEST_CASE("work on a side stream comes after its mark and before what follows the join") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  const SideStream side(gpu->place);
  const auto options = at::TensorOptions(at::kFloat).device(gpu->place);
  const at::Tensor values = at::zeros({1 << 20}, options);
  const at::Tensor heavy = test::heavy_matrix(*gpu);
  for (int round = 1; round <= 20; ++round) {
    at::Tensor product = heavy;
    for (int i = 0; i < 5; ++i) product = at::mm(product, heavy);  // keeps this thread's stream busy for a while
    values.fill_(static_cast<float>(round));
    const Mark ready = side.mark();
    std::thread([&] {
      SideStream::Scope scope;
      side.enter(ready, scope);
      values.add_(1);
    }).join();
    while (round % 2 == 0 && !side.idle()) std::this_thread::yield();  // in odd rounds the join must be enough
    side.join();
    REQUIRE(values.min().item<float>() == static_cast<float>(round + 1));
    REQUIRE(values.max().item<float>() == static_cast<float>(round + 1));
  }
}
