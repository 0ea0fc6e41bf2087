// The GPU of host memory, and SideStream on it: what is left out or wrong must be found each time.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "dtrain/device/late_copy.hpp"
#include "dtrain/device/side_stream.hpp"
#include "support/catch.hpp"
#include "support/host_gpu/streams.hpp"
#include "the_host_gpu.hpp"

using namespace dtrain;
using test::faults;
using test::floats;
using test::the_host_gpu;

namespace {

test::WorkerStream& stream_of(const SideStream& side) {
  SideStream::Scope scope;
  side.enter(nullptr, scope);
  return test::HostGpuStreams::all().stream(test::HostGpuStreams::all().current());
}

bool has(const std::vector<std::string>& sentences, const std::string& words) {
  return sentences.size() == 1 && sentences[0].find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("work of a side stream comes after the mark that it enters after, and before what follows join()") {
  const SideStream side(the_host_gpu().place);
  for (int round = 0; round < 20; ++round) {
    const at::Tensor values = at::zeros({1000}, floats());
    at::Tensor(values).add_(1);
    const Mark ready = side.mark();
    {
      SideStream::Scope scope;
      side.enter(ready, scope);
      at::Tensor(values).mul_(3);
    }
    side.join();
    at::Tensor(values).add_(1);
    CHECK(values.cpu().eq(4).all().item<bool>());
  }
  CHECK(faults().empty());
}

TEST_CASE("without the mark, and without join(), an order is missing") {
  const bool marks = GENERATE(false, true);
  const SideStream side(the_host_gpu().place);
  const at::Tensor values = at::zeros({1000}, floats());
  {
    SideStream::Scope scope;
    side.enter(marks ? side.mark() : nullptr, scope);
    at::Tensor(values).fill_(3);
  }
  if (!marks) side.join();
  at::Tensor(values).fill_(1);
  CHECK(has(faults(), "fill on stream"));
  side.join();
}

TEST_CASE("a host that has seen a side stream idle, or has waited for a result of it, needs no join()") {
  const bool asks = GENERATE(false, true);
  const SideStream side(the_host_gpu().place);
  at::Tensor values;
  {
    SideStream::Scope scope;
    side.enter(side.mark(), scope);
    values = at::ones({1000}, floats());
    if (!asks) values.sum().item<float>();
  }
  while (asks && !side.idle()) std::this_thread::yield();
  side.lend_to_current(values);
  CHECK(values.cpu().eq(1).all().item<bool>());
  CHECK(faults().empty());
}

TEST_CASE("memory of a side stream is lent to the stream that reads it, or is freed too early") {
  const bool lends = GENERATE(false, true);
  const SideStream side(the_host_gpu().place);
  at::Tensor sum = at::zeros({1000}, floats());
  {
    at::Tensor values;
    {
      SideStream::Scope scope;
      side.enter(side.mark(), scope);
      values = at::ones({1000}, floats());
    }
    side.join();
    if (lends) side.lend_to_current(values);
    sum.add_(values);
  }
  if (lends) {
    CHECK(faults().empty());
  } else {
    CHECK(has(faults(), "may still use memory of stream"));
  }
  CHECK(sum.cpu().eq(1).all().item<bool>());
}

TEST_CASE("a copy from pinned memory reads it when its stream comes to it, and until then it is not used again") {
  const SideStream side(the_host_gpu().place);
  test::WorkerStream& worker = stream_of(side);
  const auto pinned = at::TensorOptions(at::kFloat).pinned_memory(true);
  at::Tensor host = at::full({777}, 1, pinned);
  CHECK(host.is_pinned());
  const void* const place = host.const_data_ptr();
  worker.hold();
  at::Tensor early, late;
  {
    SideStream::Scope scope;
    side.enter(nullptr, scope);
    early = at::full({777}, 1).to(the_host_gpu().place, /*non_blocking=*/true);  // CUDA copies it before
    late = host.to(the_host_gpu().place, /*non_blocking=*/true);
  }
  host.fill_(2);
  host.reset();
  CHECK(at::empty({777}, pinned).const_data_ptr() != place);
  worker.release();
  while (!side.idle()) std::this_thread::yield();
  CHECK(early.cpu().eq(1).all().item<bool>());
  CHECK(late.cpu().eq(2).all().item<bool>());
  at::Tensor again = at::empty({777}, pinned);
  CHECK(again.isnan().all().item<bool>());
  CHECK(faults().empty());
}

TEST_CASE("operators give the CPU's bits, a norm's statistics and gradients too") {
  const auto result = [](c10::Device place) {
    at::Tensor x = at::arange(3 * 4 * 6 * 6, at::kFloat).sin().view({3, 4, 6, 6}).to(place);
    x.requires_grad_(true);
    const at::Tensor kernel = at::arange(2 * 4 * 9, at::kFloat).cos().view({2, 4, 3, 3}).to(place);
    at::Tensor mean = at::zeros({2}, x.options().requires_grad(false)), variance = at::ones_like(mean);
    const at::Tensor y = at::batch_norm(at::conv2d(x, kernel), {}, {}, mean, variance, true, 0.1, 1e-5, true);
    at::max_pool2d(y, {2, 2}).square().sum().backward();
    return std::vector<at::Tensor>{y.detach().cpu(), x.grad().cpu(), mean.cpu(), variance.cpu()};
  };
  const auto found = result(the_host_gpu().place), wanted = result(c10::kCPU);
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(at::equal(found[i], wanted[i]));
  CHECK_FALSE(wanted[2].eq(0).any().item<bool>());
  CHECK(faults().empty());
}

TEST_CASE("a copy to the host has the values of the moment, and waits for nothing that is issued later") {
  at::Tensor values = at::full({3}, 1, floats());
  const LateCopy copy(values);
  const int64_t before = test::HostGpuStreams::all().mark(0).pushed;
  test::WorkerStream& worker = test::HostGpuStreams::all().stream(0);
  while (!worker.did(before)) std::this_thread::yield();
  worker.hold();
  values.fill_(2);
  CHECK(copy.wait().eq(1).all().item<bool>());
  worker.release();
  CHECK(values.cpu().eq(2).all().item<bool>());
  CHECK(LateCopy(at::full({3}, 4)).wait().eq(4).all().item<bool>());
  CHECK(faults().empty());
}
