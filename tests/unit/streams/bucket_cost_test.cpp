// What sums cost is told to all ranks through the device.
#include "dtrain/dist/bucket_cost.hpp"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"
#include "support/catch.hpp"
#include "support/host_gpu/streams.hpp"
#include "the_host_gpu.hpp"

using namespace dtrain;
using test::the_host_gpu;

namespace {

// Two ranks, of which the other takes its messages late.
class LatePeer : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void exchange(const std::vector<Message>&, const std::vector<Message>&) override {
    told_ = true;
    test::HostGpuStreams::all().issue("a message", {},
                                      [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  }
  void all_reduce(at::Tensor&) override {}
  HostMemory share(int64_t numel, c10::Device device) override { return unshared_memory(0, 2, numel, device); }
  std::unique_ptr<Communicator> duplicate() override { return make_serial_communicator(); }
  void limit_waits(double) override {}
  void require_healthy() override {
    if (told_) throw Error(exit_code::kStalled, "the peer is late");
  }

 private:
  bool told_ = false;
};

}  // namespace

TEST_CASE("what sums cost is waited for as long as the transport is healthy, and no longer") {
  const SideStream side(the_host_gpu().place);
  const auto alone = make_serial_communicator();
  const auto sum = make_bucket_sum(Reduction::canonical, *alone, the_host_gpu(), 2, 100'000);
  LatePeer peer;
  CHECK_THROWS_WITH(measure_bucket_cost(*sum, peer, side, 2), "the peer is late");
}
