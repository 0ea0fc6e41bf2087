// The calls of cuda/real_nccl.cpp, compiled as it is, on the tests' own libnccl.so.2 (tests/support/nccl): ranks are
// threads here, and processes in tests/mpi/mpi_nccl_test.cpp.
#include "dtrain/cuda/real_nccl.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/message.hpp"
#include "dtrain/dist/nccl_communicator.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"
#include "support/nccl/forwarding_nccl.hpp"
#include "support/nccl/host_stream.hpp"
#include "support/nccl/stand_in.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;
using test::HostStream;
using test::PromptStream;
using test::WorkerStream;

namespace {

thread_local HostStream* current = nullptr;
CUstream_st* current_stream() { return current == nullptr ? nullptr : current->handle(); }

// How the tests' NCCL behaves while this lives.
class Behaviour {
 public:
  explicit Behaviour(const std::string& plan) { setenv("DTRAIN_STAND_IN_NCCL", plan.c_str(), 1); }
  ~Behaviour() { unsetenv("DTRAIN_STAND_IN_NCCL"); }
  Behaviour(const Behaviour&) = delete;
  Behaviour& operator=(const Behaviour&) = delete;
};

// Runs `body` on threads that are ranks, each with a stream that does its work at once.
void run_on_nccl(int ranks, const std::function<void(Communicator&)>& body, double limit_s = 20, bool ring = false) {
  run_ranks(ranks, [&](Communicator& host) {
    PromptStream prompt;
    current = &prompt;
    const auto api = make_real_nccl(c10::kCPU, current_stream);
    const auto comm = make_nccl_communicator(*api, host, limit_s, ring);
    body(*comm);
  });
}

void wait_until_idle(const WorkerStream& stream, Communicator& comm) {
  const Stopwatch waited;
  while (!stream.idle()) {
    comm.require_healthy();
    std::this_thread::yield();
    check(waited.seconds() < 20, "a stream runs dry, or its communicator fails");
  }
}

// The start of each rank takes longer than that of the one before.
class LateStart final : public test::ForwardingNccl {
 public:
  LateStart(std::unique_ptr<NcclApi> real, std::atomic<int>& started)
      : ForwardingNccl(std::move(real)), started_(started) {}

  NcclResult init_rank(Handle& comm, int ranks, const Id& id, int rank) override {
    const NcclResult result = ForwardingNccl::init_rank(comm, ranks, id, rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * rank));
    ranks_ = ranks;
    ++started_;
    return result;
  }
  NcclResult group_start() override {
    check(started_ == ranks_, "all ranks have started");
    return ForwardingNccl::group_start();
  }

 private:
  std::atomic<int>& started_;
  int ranks_ = 0;
};

// What was thrown, "76 a sum …"; "" if nothing.
template <typename Body>
std::string thrown_by(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(error.code()) + " " + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("these tests run on the tests' NCCL, and are told its version") {
  CHECK(dtrain_stand_in_nccl() == std::string("the tests' NCCL"));
  CHECK(make_real_nccl(c10::kCPU, current_stream)->version() ==
        std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH));
}

TEST_CASE("over NCCL's own calls sums keep the tree's bits, with any pauses") {
  const Behaviour behaviour("seed=3,pause_us=100");
  for (int n = 1; n <= 3; ++n) {
    INFO(n << " ranks");
    CHECK_NOTHROW(run_on_nccl(n, [](Communicator& comm) { test::check_collectives(comm); }));
    CHECK_NOTHROW(run_on_nccl(n, [](Communicator& comm) { test::check_bucket_sum(comm, Reduction::canonical, 5); }));
  }
}

TEST_CASE("no rank sends anything before all have started: it might deadlock with what a start allocates") {
  std::atomic<int> started{0};
  CHECK_NOTHROW(run_ranks(2, [&started](Communicator& host) {
    PromptStream prompt;
    current = &prompt;
    LateStart api(make_real_nccl(c10::kCPU, current_stream), started);
    const auto comm = make_nccl_communicator(api, host, 20);
    const int peer = 1 - comm->rank();
    const at::Tensor out = at::ones(4), in = at::zeros(4);
    comm->exchange({{peer, out}}, {{peer, in}});
    check(at::equal(in, out), "the message is there");
  }));
}

TEST_CASE("work reads and writes its buffers when the stream runs it, and not before") {
  const auto body = [](Communicator& host) {
    WorkerStream stream(static_cast<uint64_t>(host.rank()), 0);
    current = &stream;
    const auto api = make_real_nccl(c10::kCPU, current_stream);
    const auto comm = make_nccl_communicator(*api, host, 20);
    stream.hold();
    at::Tensor out = at::zeros(1000);
    at::Tensor in = at::zeros(1000);
    at::Tensor all = at::zeros(16);
    at::Tensor sums = at::ones(3);
    stream.push([&] { out.fill_(comm->rank() + 1); });  // as a kernel would
    const int peer = 1 - comm->rank();
    comm->exchange({{peer, out}}, {{peer, in}});
    stream.push([&] { all.copy_(in.slice(0, 0, 16)); });
    comm->gather_slices(all);
    stream.push([&] { sums.fill_(comm->rank() == 0 ? 5 : 7); });
    comm->all_reduce(sums);
    const bool untouched =
        at::equal(in, at::zeros(1000)) && at::equal(all, at::zeros(16)) && at::equal(sums, at::ones(3));
    stream.release();
    wait_until_idle(stream, *comm);
    check(untouched, "nothing has run yet");
    check(at::equal(in, at::full({1000}, peer + 1.0F)), "what was sent is what the stream had written by then");
    check(at::equal(all, at::cat({at::full({8}, 2.0F), at::full({8}, 1.0F)})), "slices are gathered");
    check(at::equal(sums, at::full({3}, 12.0F)), "a sum is of what the stream had written by then");
  };
  CHECK_NOTHROW(run_ranks(2, body));
  const Behaviour early("plant=early");
  CHECK_THAT(thrown_by([&] { run_ranks(2, body); }), Catch::Contains("what was sent is what the stream had written"));
}

TEST_CASE("a call before the last has been carried out is refused, and the communicator is lost") {
  PromptStream prompt;
  current = &prompt;
  const auto api = make_real_nccl(c10::kCPU, current_stream);
  NcclApi::Id id;
  REQUIRE(api->get_unique_id(id) == NcclResult::success);
  NcclApi::Handle comm = nullptr;
  CHECK(api->init_rank(comm, 2, id, 0) == NcclResult::in_progress);  // rank 1 has not come
  float value = 1;
  CHECK(api->all_reduce(&value, 1, comm) == NcclResult::invalid_argument);
  CHECK_THAT(api->last_error(comm), Catch::Contains("before its last call"));
  NcclResult state = NcclResult::success;
  CHECK(api->async_error(comm, state) == NcclResult::success);
  CHECK(state == NcclResult::invalid_argument);
  CHECK(api->abort(comm) == NcclResult::success);
}

TEST_CASE("a communicator that does not wait for its calls is found") {
  // Says that every call has been carried out when it returns.
  class Hasty final : public test::ForwardingNccl {
   public:
    using ForwardingNccl::ForwardingNccl;
    NcclResult group_end() override {
      const NcclResult result = ForwardingNccl::group_end();
      return result == NcclResult::in_progress ? NcclResult::success : result;
    }
  };
  const Behaviour slow("pause_us=3000");
  std::vector<std::string> said(2);
  run_ranks(2, [&](Communicator& host) {
    PromptStream prompt;
    current = &prompt;
    at::Tensor out = at::ones(100);
    at::Tensor in = at::ones(100);
    Hasty hasty(make_real_nccl(c10::kCPU, current_stream));
    const auto comm = make_nccl_communicator(hasty, host, 1);
    said[static_cast<size_t>(host.rank())] = thrown_by([&] {
      for (int i = 0; i < 50; ++i) comm->exchange({{1 - host.rank(), out}}, {{1 - host.rank(), in}});
    });
  });
  const std::string& first = said[0].starts_with("70 ") ? said[0] : said[1];  // the other may only miss its peer
  CHECK_THAT(first, Catch::StartsWith("70 ") && Catch::Contains("before its last call has been carried out"));
}

TEST_CASE("messages between two ranks arrive in order: a transport that swaps two is found") {
  const auto sums = [] {
    run_on_nccl(
        3, [](Communicator& comm) { test::check_bucket_sum(comm, Reduction::canonical, 8); }, 1);
  };
  CHECK(thrown_by(sums).empty());
  const Behaviour swapped("plant=fifo");
  CHECK_THAT(thrown_by(sums), Catch::Contains("the canonical sum is the tree") || Catch::StartsWith("76 "));
}

TEST_CASE("a ring adds up in a ring's order: that of messages, and no other") {
  const auto bits = [](bool nccl) {
    at::Tensor sums;
    const auto body = [&](Communicator& comm) {
      const at::Tensor mine = test::sum_of_leaves(comm, Reduction::ring, 5, 1003);
      if (comm.rank() == 0) sums = mine;
    };
    nccl ? run_on_nccl(5, body, 20, true) : run_ranks(5, body);
    return sums;
  };
  const at::Tensor expected = bits(false);
  CHECK(at::equal(bits(true), expected));
  {
    const Behaviour other("plant=order");
    CHECK_FALSE(at::equal(bits(true), expected));
  }
  setenv("NCCL_ALGO", "Tree", 1);  // the user's choice is kept
  const at::Tensor tree = bits(true);
  unsetenv("NCCL_ALGO");
  CHECK_FALSE(at::equal(tree, expected));
}

TEST_CASE("sizes that disagree hang until the limit, and end with 76") {
  for (const int64_t mine : {9, 11}) {
    std::atomic<int> stalled{0};
    run_on_nccl(
        2,
        [&](Communicator& comm) {
          at::Tensor sent = at::ones(comm.rank() == 0 ? mine : 10);
          at::Tensor taken = at::ones(10);
          const std::string said = thrown_by([&] {
            comm.exchange({{1 - comm.rank(), sent}}, {{1 - comm.rank(), taken}});
          });
          if (said.starts_with("76 ")) ++stalled;
        },
        0.3);
    CHECK(stalled == 1);  // rank 1 takes what rank 0 does not send; rank 0 gets what it wants
  }
}

TEST_CASE("an abort by another thread ends work that waits for a peer, and its buffers are not touched again") {
  std::atomic<bool> aborted{false};
  run_ranks(2, [&](Communicator& host) {
    WorkerStream stream(1, 0);
    current = &stream;
    const auto api = make_real_nccl(c10::kCPU, current_stream);
    auto comm = make_nccl_communicator(*api, host, 0.2);
    if (host.rank() == 0) {
      at::Tensor never = at::zeros(100);
      comm->exchange({}, {{1, never}});  // carried out: the stream has it
      const std::string said = thrown_by([&] { wait_until_idle(stream, *comm); });
      std::thread other([&] { comm.reset(); });
      other.join();
      const Stopwatch waited;
      while (!stream.idle() && waited.seconds() < 20) std::this_thread::yield();
      aborted = said.starts_with("76 ") && stream.idle() && at::equal(never, at::zeros(100));
    }
    barrier(host);
  });
  CHECK(aborted);
}

TEST_CASE("an error that comes later is found while the device is waited for, and ends with 69") {
  const Behaviour behaviour("fault=error,rank=1,at=1");
  std::vector<std::string> said(2);
  run_ranks(2, [&](Communicator& host) {
    WorkerStream stream(1, 0);
    current = &stream;
    const auto api = make_real_nccl(c10::kCPU, current_stream);
    at::Tensor values = at::ones(10);
    const auto comm = make_nccl_communicator(*api, host, 0.5);
    stream.hold();
    comm->all_reduce(values);  // carried out: the stream has it
    comm->require_healthy();
    stream.release();
    said[static_cast<size_t>(host.rank())] = thrown_by([&] { wait_until_idle(stream, *comm); });
  });
  CHECK_THAT(said[1], Catch::StartsWith("69 ") && Catch::Contains("a peer or its network failed"));
  CHECK_THAT(said[0], Catch::StartsWith("76 "));  // it only misses its peer
}

TEST_CASE("a start that one rank never makes ends with 76 on all") {
  const Behaviour behaviour("fault=start,rank=1");
  std::atomic<int> stalled{0};
  run_ranks(3, [&](Communicator& host) {
    PromptStream prompt;
    current = &prompt;
    const auto api = make_real_nccl(c10::kCPU, current_stream);
    const std::string said = thrown_by([&] { make_nccl_communicator(*api, host, 0.3); });
    if (said == "76 ncclCommInitRankConfig was not carried out for 0.3 s: a peer is gone or the network is down")
      ++stalled;
  });
  CHECK(stalled == 3);
}
