// Graphs of the GPU of host memory: what CUDA refuses while it records, and what a wrong use of a graph shows.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include "dtrain/base/error.hpp"
#include "dtrain/device/gpu_module.hpp"
#include "dtrain/device/side_stream.hpp"
#include "support/catch.hpp"
#include "support/host_gpu/streams.hpp"
#include "the_host_gpu.hpp"

using namespace dtrain;
using test::faults;
using test::floats;
using test::the_host_gpu;

namespace {

std::unique_ptr<DeviceGraph> new_graph() { return the_host_gpu().module->make_graph(); }

bool all_equal(const at::Tensor& tensor, double value) { return tensor.cpu().eq(value).all().item<bool>(); }
bool all_nan(const at::Tensor& tensor) { return tensor.cpu().isnan().all().item<bool>(); }

c10::Stream numbered(c10::StreamId number) { return c10::Stream(c10::Stream::UNSAFE, the_host_gpu().place, number); }
c10::Stream new_stream() { return numbered(test::HostGpuStreams::all().make()); }
c10::Stream current_stream() { return numbered(test::HostGpuStreams::all().current()); }

}  // namespace

TEST_CASE("a graph does nothing while it is recorded, and with each replay what its memory then asks for") {
  const at::Tensor x = at::full({3, 4}, 1, floats());
  at::Tensor total = at::full({3, 4}, 10, floats());
  at::Tensor row;
  const auto graph = new_graph();
  graph->record([&] {
    const at::Tensor doubled = x * 2;            // an operator's result
    total.add_(doubled);                         // in place
    total.narrow(0, 0, 1).fill_(5);              // work of the device's own
    row = at::cat({doubled, x}).sum(1).clone();  // of a list, then a copy
  });
  CHECK(all_equal(total, 10));
  CHECK(all_nan(row));
  for (const int value : {3, 7}) {
    at::Tensor(x).fill_(value);
    total.fill_(10);
    graph->replay();
    CHECK(all_equal(total.narrow(0, 0, 1), 5));
    CHECK(all_equal(total.narrow(0, 1, 2), 10 + 2 * value));
    CHECK(all_equal(row.narrow(0, 0, 3), 8 * value));
    CHECK(all_equal(row.narrow(0, 3, 3), 4 * value));
  }
  CHECK(faults().empty());
}

TEST_CASE("gradients of a graph come as without one, whatever runs between two replays") {
  const at::Tensor x = at::full({2, 3, 4, 4}, 0.25, floats());
  at::Tensor weight = at::full({2, 3, 3, 3}, 0.5, floats()).requires_grad_(true);
  weight.mutable_grad() = at::zeros_like(weight);
  const auto pass = [&] {
    const at::Tensor loss = at::conv2d(x, weight, {}, 1, 1).relu().square().sum();
    loss.backward();
    return loss.detach();
  };
  pass();
  const at::Tensor wanted = weight.grad().cpu();
  weight.mutable_grad().zero_();
  at::Tensor loss;
  const auto graph = new_graph();
  graph->record([&] { loss = pass(); });
  CHECK(all_equal(weight.grad(), 0));
  for (int round = 1; round <= 3; ++round) {
    graph->replay();
    CHECK(weight.grad().cpu().equal(wanted * round));
    at::zeros({100}, floats()).add_(1);
  }
  CHECK(loss.item<float>() > 0);
  CHECK(faults().empty());
}

TEST_CASE("a graph's results are gone when another one runs, or it runs again") {
  const at::Tensor x = at::full({8}, 2, floats());
  at::Tensor first, second;
  const auto one = new_graph(), other = new_graph();
  one->record([&] { first = x * 2; });
  other->record([&] { second = x * 3; });
  one->replay();
  CHECK(all_equal(first, 4));
  CHECK_FALSE(one->overwritten());
  other->replay();
  CHECK(one->overwritten());
  CHECK(all_nan(first));
  CHECK(all_equal(second, 6));
  CHECK(faults().empty());
}

TEST_CASE("a graph that reads memory which is not its own and not kept is found") {
  const auto graph = new_graph();
  at::Tensor result;
  {
    const at::Tensor gone = at::full({8}, 2, floats());
    graph->record([&] { result = gone * 2; });
  }
  graph->replay();
  const std::vector<std::string> found = faults();
  REQUIRE_FALSE(found.empty());
  CHECK_THAT(found[0], Catch::Contains("memory that is not the device's"));
}

TEST_CASE("work that waits for a point in a graph comes after it in each replay, and beside the rest") {
  const at::Tensor early = at::full({1000}, 0, floats()), late = at::full({1000}, 0, floats());
  const SideStream side(the_host_gpu().place);
  const auto graph = new_graph();
  Mark half;
  graph->record([&] {
    at::Tensor(early).add_(1);
    half = graph->mark();
    at::Tensor(late).add_(1);
  });
  const auto doubled = [&](const at::Tensor& values) {  // on the side stream
    SideStream::Scope scope;
    side.enter(half, scope);
    at::Tensor(values).mul_(2);
  };
  CHECK_THROWS_WITH(doubled(early), Catch::Contains("has not run"));
  double wanted = 0;
  for (int round = 0; round < 20; ++round) {
    graph->replay();
    doubled(early);
    side.join();
    wanted = 2 * (wanted + 1);
  }
  CHECK(all_equal(early, wanted));
  CHECK(all_equal(late, 20));
  CHECK(faults().empty());
  graph->replay();
  doubled(late);
  const std::vector<std::string> found = faults();
  side.join();
  REQUIRE_FALSE(found.empty());
  CHECK_THAT(found[0], Catch::Contains("on stream"));
  CHECK_THROWS_WITH(graph->mark(), Catch::Contains("not being recorded"));
}

TEST_CASE("what CUDA cannot record, the host's GPU refuses to record") {
  const at::Tensor x = at::full({8}, 2, floats());
  const auto refused = [](const std::function<void()>& work, const char* why) {
    CHECK_THROWS_WITH(new_graph()->record(work), Catch::Contains(why));
  };
  refused([&] { x.sum().item<float>(); }, "waits for the device");
  refused([&] { at::Tensor(x).copy_(at::zeros({8})); }, "a copy from or to the host");
  refused([&] { x.cpu(); }, "a copy from or to the host");
  refused([] { current_stream().synchronize(); }, "the host waits for it");
  refused([] { current_stream().query(); }, "the host asks for its state");
  // Another stream joins in and is not waited for.
  const auto mark_of = [](const c10::Stream& stream) {
    c10::Event event(stream.device_type());
    event.record(stream);
    return event;
  };
  const c10::Stream beside = new_stream();
  const at::Tensor y = at::full({8}, 2, floats());
  const auto fork = [&] {
    mark_of(current_stream()).block(beside);
    const c10::StreamGuard guard(beside);
    at::Tensor(y).add_(1);
  };
  refused(fork, "has not waited");
  refused([&] { mark_of(current_stream()).block(numbered(0)); }, "the default stream");
  refused([&] { mark_of(beside).block(current_stream()); }, "it waits for work that is not");
  // And is.
  const auto graph = new_graph();
  graph->record([&] {
    fork();
    mark_of(beside).block(current_stream());
    at::Tensor(y).mul_(10);
  });
  graph->replay();
  CHECK(all_equal(y, 30));
  CHECK(faults().empty());
}
