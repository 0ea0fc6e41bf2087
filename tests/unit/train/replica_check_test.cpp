#include "dtrain/train/replica_check.hpp"

#include <algorithm>
#include <mutex>

#include "dtrain/base/time.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/model/network.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

// The intervals of two ranks after `steps` steps that are said to take `seconds` each, and how often weights were
// hashed.
struct Seen {
  std::vector<int64_t> every;
  std::vector<int64_t> taken;
};

Seen after(int64_t steps, const std::vector<double>& seconds_of_ranks, int64_t every = 0) {
  Seen seen;
  std::mutex mutex;
  run_ranks(static_cast<int>(seconds_of_ranks.size()), [&](Communicator& comm) {
    ModelOptions model;
    model.kind = network_kind("small_cnn");
    Replica replica(make_network(model, {3, 16, 16, 2}, 1), at::MemoryFormat::ChannelsLast, OptimizerOptions{});
    ReplicaCheck check(replica, comm, every);
    for (int64_t i = 0; i < steps; ++i) {
      check.look();
      const ReplicaCheck::Hashes mine = check.take();
      check.compare({mine, mine}, i);
      check.step_took(seconds_of_ranks[static_cast<size_t>(comm.rank())]);
    }
    const std::lock_guard lock(mutex);
    seen.every.push_back(check.every());
    seen.taken.push_back(check.weights_taken());
  });
  return seen;
}

}  // namespace

TEST_CASE("where steps are long, weights are compared at every one") {
  const Seen seen = after(20, {1000, 1000});
  CHECK(seen.every == std::vector<int64_t>{1, 1});
  CHECK(seen.taken[0] >= 18);  // all but the step that is measured by itself
  CHECK(seen.taken[0] == seen.taken[1]);
}

TEST_CASE("where hashing costs more than steps, weights are compared seldom, but not never; the ranks agree") {
  const Seen seen = after(50, {1e-9, 1000});  // rank 0 decides
  CHECK(seen.every[0] == seen.every[1]);
  CHECK(seen.every[0] > 50);
  CHECK(seen.every[0] <= 10'000);
  CHECK(seen.taken == std::vector<int64_t>{2, 2});
}

TEST_CASE("the interval follows from what a step takes, however many there were") {
  double hashing = 1;  // the quickest of several: a busy machine can only make the interval longer
  run_ranks(1, [&](Communicator&) {
    ModelOptions model;
    model.kind = network_kind("small_cnn");
    const Replica replica(make_network(model, {3, 16, 16, 2}, 1), at::MemoryFormat::ChannelsLast, OptimizerOptions{});
    for (int i = 0; i < 20; ++i) {
      const Stopwatch watch;
      replica.hash_weights();
      hashing = std::min(hashing, watch.seconds());
    }
  });
  // 0.3 % of a step are a hundredth of hashing. More steps than the longest interval, so that it is computed again.
  CHECK(after(12'000, {hashing / 0.3}).every[0] >= 40);
}

TEST_CASE("an interval that is given is kept") {
  const Seen seen = after(20, {1e-9, 1e-9}, 7);
  CHECK(seen.every == std::vector<int64_t>{7, 7});
  CHECK(seen.taken == std::vector<int64_t>{3, 3});
}
