#include "dtrain/dist/nccl_communicator.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <sstream>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/message.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "dtrain/dist/watched_communicator.hpp"
#include "nccl_stand_in.hpp"
#include "support/catch.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;
using test::NcclWire;
using test::StandInNccl;

namespace {

constexpr double kLimit = 20;

// Runs `body` on every rank, over NCCL's stand-in; Catch's macros belong to one thread.
void run_nccl_ranks(int ranks, const std::function<void(Communicator&, StandInNccl&)>& body,
                    const std::vector<int>& host_of = {}) {
  auto wire = std::make_shared<NcclWire>();
  const auto on_rank = [&](Communicator& host) {
    StandInNccl api(wire);
    const auto comm = make_nccl_communicator(api, host, kLimit);
    body(*comm, api);
  };
  run_ranks(ranks, on_rank, host_of);
}

// "send 20 to 1" → 20 where the peer is one of `peers`, and so on over all calls.
int64_t bytes_sent(const std::vector<std::string>& calls, const std::vector<int>& peers) {
  int64_t bytes = 0;
  for (const std::string& call : calls) {
    std::istringstream words(call);
    std::string verb;
    std::string to;
    int64_t count = 0;
    int peer = 0;
    if (words >> verb >> count >> to >> peer && verb == "send" &&
        std::find(peers.begin(), peers.end(), peer) != peers.end())
      bytes += count;
  }
  return bytes;
}

// Runs a job of one rank with a stand-in set up by `prepare`; returns the calls recorded after all is destroyed.
template <typename Prepare, typename Body>
std::vector<std::string> calls_of(Prepare prepare, Body body) {
  StandInNccl api(std::make_shared<NcclWire>());
  const auto host = make_serial_communicator();
  prepare(api);
  try {
    const auto comm = make_nccl_communicator(api, *host, 0.2);
    body(*comm, api);
  } catch (const Error&) {
    api.calls.emplace_back("thrown");
  }
  return api.calls;
}

const auto nothing = [](auto&&...) {};

}  // namespace

TEST_CASE("over NCCL collectives, sums and the reducer do what they do over threads, bit for bit") {
  for (int n = 1; n <= 4; ++n) {
    CHECK_NOTHROW(run_nccl_ranks(n, [](Communicator& comm, StandInNccl&) { test::check_collectives(comm); }));
    for (const int64_t v : {4, 5, 8}) {
      INFO("ranks " << n << " of " << v);
      for (const Reduction reduction : {Reduction::canonical, Reduction::ring, Reduction::fastest})
        CHECK_NOTHROW(
            run_nccl_ranks(n, [&](Communicator& comm, StandInNccl&) { test::check_bucket_sum(comm, reduction, v); }));
      CHECK_NOTHROW(run_nccl_ranks(n, [&](Communicator& comm, StandInNccl&) { test::check_reducer(comm, v, 0.001); }));
    }
  }
}

TEST_CASE("over NCCL on several nodes the sums keep their bits, however the ranks lie") {
  const std::vector<std::vector<int>> layouts = {{0, 1},       {0, 0, 1},    {0, 1, 0},         {0, 0, 1, 1},
                                                 {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 0, 1, 1, 2, 2}};
  for (const std::vector<int>& host_of : layouts)
    for (const int64_t v : {6, 7, 8, 16}) {
      INFO("V " << v << " on " << host_of.size() << " ranks, the second on node " << host_of[1]);
      const auto check = [&](Communicator& comm, StandInNccl&) {
        test::check_bucket_sum(comm, Reduction::canonical, v);
      };
      CHECK_NOTHROW(run_nccl_ranks(static_cast<int>(host_of.size()), check, host_of));
    }
}

TEST_CASE("of each slice one sum for every whole subtree of a node leaves the node") {
  // V = 8 on two nodes of four GPUs, 96 floats: each node adds up its half of the tree. For the other node's 4 slices
  // of 12 floats it sends 192 bytes. If each GPU sent its own sums, it would be four times that.
  std::vector<int64_t> leaving(8);
  std::vector<int64_t> inside(8);
  std::vector<std::string> transports(8);
  const auto body = [&](Communicator& comm, StandInNccl& api) {
    const auto sum = make_bucket_sum(Reduction::canonical, comm, {}, 8, 96);
    sum->begin(CanonicalTree(std::vector<bool>(8, true)));
    api.calls.clear();
    sum->sum({0, 96});
    const auto rank = static_cast<size_t>(comm.rank());
    const std::vector<int> low = {0, 1, 2, 3};
    const std::vector<int> high = {4, 5, 6, 7};
    leaving[rank] = bytes_sent(api.calls, rank < 4 ? high : low);
    inside[rank] = bytes_sent(api.calls, rank < 4 ? low : high);
    transports[rank] = sum->transport();
    if (api.calls.back() != "all_gather 48") throw InternalError("slices are gathered at the end");
  };
  run_nccl_ranks(8, body, {0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(leaving == std::vector<int64_t>(8, 48));  // each GPU uses its own network card
  CHECK(inside ==
        std::vector<int64_t>(8, 288));  // for the slices of its three neighbours and those that these are partners for
  CHECK(transports[3] == "messages (NCCL between GPUs), within each of 2 hosts, then between them");
}

TEST_CASE("ring is NCCL's all-reduce, told by NCCL_ALGO to go around a ring unless the user has chosen") {
  const auto seen = [](bool ring) {
    StandInNccl api(std::make_shared<NcclWire>());
    const auto host = make_serial_communicator();
    const auto comm = make_nccl_communicator(api, *host, 0.2, ring);
    CHECK(comm->rings() == ring);
    return api.algorithm_given + ", " + comm->all_reduce_transport();
  };
  unsetenv("NCCL_ALGO");
  CHECK(seen(true) == "Ring, NCCL's all-reduce (NCCL_ALGO=Ring)");
  CHECK(std::getenv("NCCL_ALGO") == nullptr);
  CHECK(seen(false) == ", NCCL's all-reduce");
  setenv("NCCL_ALGO", "Tree", 1);
  CHECK(seen(true) == "Tree, NCCL's all-reduce (NCCL_ALGO=Tree)");
  CHECK(seen(false) == "Tree, NCCL's all-reduce (NCCL_ALGO=Tree)");
  CHECK(std::getenv("NCCL_ALGO") == std::string("Tree"));
  unsetenv("NCCL_ALGO");
  std::vector<std::string> calls;
  auto wire = std::make_shared<NcclWire>();
  run_ranks(2, [&](Communicator& host) {
    StandInNccl api(wire);
    const auto comm = make_nccl_communicator(api, host, kLimit, true);
    test::check_bucket_sum(*comm, Reduction::ring, 5);
    const auto sum = make_bucket_sum(Reduction::ring, *comm, {}, 2, 100);
    sum->begin(CanonicalTree({true, true}));
    api.calls.clear();
    sum->sum({10, 100});
    if (comm->rank() == 0) calls = api.calls;
  });
  CHECK(calls == std::vector<std::string>{"all_reduce 90"});
}

TEST_CASE("the id that rank 0 draws starts every rank's communicator") {
  std::vector<std::vector<std::string>> calls(3);
  std::vector<NcclApi::Id> ids(3);
  run_nccl_ranks(3, [&](Communicator& comm, StandInNccl& api) {
    calls[static_cast<size_t>(comm.rank())] = api.calls;
    ids[static_cast<size_t>(comm.rank())] = api.id_given;
  });
  CHECK(calls[0] == std::vector<std::string>{"get_unique_id", "init_rank 0 of 3"});
  CHECK(calls[1] == std::vector<std::string>{"init_rank 1 of 3"});
  CHECK(calls[2] == std::vector<std::string>{"init_rank 2 of 3"});
  CHECK(ids[1].bytes == ids[0].bytes);
  CHECK(ids[2].bytes == ids[0].bytes);
  CHECK(ids[0].bytes[1] == 8);
}

TEST_CASE("a canonical sum sends the other rank's slice, receives its own, and gathers the sums, bucket by bucket") {
  std::vector<std::string> calls;
  run_nccl_ranks(2, [&](Communicator& comm, StandInNccl& api) {
    const auto sum = make_bucket_sum(Reduction::canonical, comm, {}, 2, 100);
    sum->begin(CanonicalTree({true, true}));
    if (comm.rank() == 0) api.calls.clear();
    sum->sum({0, 10});
    sum->sum({10, 99});
    if (comm.rank() == 0) calls = api.calls;
  });
  // In bytes: slices of 8 and 2, of 48 and 41 floats, which begin at multiples of 16 bytes; they are padded to be
  // gathered.
  const std::vector<std::string> expected = {
      "group_start", "receive 32 from 1",  "send 8 to 1",   "group_end", "all_gather 32",
      "group_start", "receive 192 from 1", "send 164 to 1", "group_end", "all_gather 192"};
  CHECK(calls == expected);
}

TEST_CASE("a communicator that is well is finished, then destroyed") {
  const auto calls = calls_of(nothing, nothing);
  CHECK(calls == std::vector<std::string>{"get_unique_id", "init_rank 0 of 1", "finalize", "destroy"});
}

TEST_CASE("a failed one, and one that an exception leaves behind, is aborted and nothing else") {
  const auto failed = calls_of([](StandInNccl& api) { api.failing["group_end"] = NcclResult::remote_error; },
                               [](Communicator& comm, StandInNccl&) {
                                 comm.exchange({{0, at::ones(2)}}, {});
                               });
  CHECK(failed == std::vector<std::string>{"get_unique_id", "init_rank 0 of 1", "group_start", "send 8 to 0",
                                           "group_end", "abort", "thrown"});
  const auto left = calls_of(nothing, [](Communicator&, StandInNccl&) { throw IoError("elsewhere"); });
  CHECK(left == std::vector<std::string>{"get_unique_id", "init_rank 0 of 1", "abort", "thrown"});
  const auto not_finished = calls_of([](StandInNccl& api) { api.hanging = "finalize"; }, nothing);
  CHECK(not_finished == std::vector<std::string>{"get_unique_id", "init_rank 0 of 1", "finalize", "abort"});
  const auto not_started =
      calls_of([](StandInNccl& api) { api.failing["init_rank"] = NcclResult::system_error; }, nothing);
  CHECK(not_started == std::vector<std::string>{"get_unique_id", "init_rank 0 of 1", "abort", "thrown"});
}

TEST_CASE("each failure of NCCL becomes one sentence and a code") {
  const auto code_of = [](const std::string& call, NcclResult result, const auto& body) {
    StandInNccl api(std::make_shared<NcclWire>());
    api.failing[call] = result;
    const auto host = make_serial_communicator();
    try {
      const auto comm = make_nccl_communicator(api, *host, 0.2);
      body(*comm);
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("the stand-in's words"));
      return error.code();
    }
    return exit_code::kDone;
  };
  const auto send = [](Communicator& comm) { comm.exchange({{0, at::ones(1)}}, {}); };
  const auto reduce = [](Communicator& comm) {
    at::Tensor ones = at::ones(3);
    comm.all_reduce(ones);
  };
  for (const NcclResult result : {NcclResult::unhandled_cuda_error, NcclResult::system_error,
                                  NcclResult::internal_error, NcclResult::invalid_usage, NcclResult::remote_error}) {
    for (const char* call : {"get_unique_id", "init_rank"})
      CHECK(code_of(call, result, nothing) == exit_code::kPeerFailed);
    for (const char* call : {"group_start", "send", "group_end"})
      CHECK(code_of(call, result, send) == exit_code::kPeerFailed);
    CHECK(code_of("all_reduce", result, reduce) == exit_code::kPeerFailed);
    CHECK(code_of("later", result, [](Communicator& comm) { comm.require_healthy(); }) == exit_code::kPeerFailed);
  }
  CHECK(code_of("send", NcclResult::invalid_argument, send) == exit_code::kInternal);
}

TEST_CASE("a start of NCCL for which the GPU has no memory ends with 71") {
  StandInNccl api(std::make_shared<NcclWire>());
  api.failing["init_rank"] = NcclResult::unhandled_cuda_error;
  const auto code = [&](const char* words) {
    api.said = words;
    const auto host = make_serial_communicator();
    try {
      make_nccl_communicator(api, *host, 0.2);
    } catch (const Error& error) {
      return error.code();
    }
    return exit_code::kDone;
  };
  CHECK(code("Cuda failure 2 'out of memory'") == exit_code::kOutOfMemory);
  CHECK(code("Cuda failure 700 'an illegal memory access was encountered'") == exit_code::kPeerFailed);
}

TEST_CASE("memory that NCCL cannot reach is never handed to it") {
  StandInNccl api(std::make_shared<NcclWire>());
  const auto host = make_serial_communicator();
  const auto comm = make_nccl_communicator(api, *host, 0.2);
  api.memory_type = c10::kCUDA;
  at::Tensor on_host = at::ones(4);
  const std::vector<std::string> before = api.calls;
  CHECK_THROWS_AS(comm->exchange({{0, on_host}}, {}), InternalError);
  CHECK_THROWS_AS(comm->all_reduce(on_host), InternalError);
  CHECK(api.calls == before);
}

TEST_CASE("when rank 0 gets no id, every rank is told") {
  std::atomic<int> told{0};
  auto wire = std::make_shared<NcclWire>();
  run_ranks(3, [&](Communicator& host) {
    StandInNccl api(wire);
    api.failing["get_unique_id"] = NcclResult::system_error;
    try {
      make_nccl_communicator(api, host, kLimit);
    } catch (const CommError&) {
      ++told;
    }
  });
  CHECK(told == 3);
}

TEST_CASE("a watched communicator leaves to its transport what that does by itself") {
  const auto nobody = [](const std::string&) {};
  Watchdog watchdog({}, {nobody, nobody, [] {}});
  StandInNccl api(std::make_shared<NcclWire>());
  const auto host = make_serial_communicator();
  unsetenv("NCCL_ALGO");
  const auto comm = with_waits_noted(make_nccl_communicator(api, *host, kLimit, true), watchdog);
  CHECK(comm->rings());
  CHECK(comm->all_reduce_transport() == "NCCL's all-reduce (NCCL_ALGO=Ring)");
  api.calls.clear();
  at::Tensor values = at::ones(4);
  comm->gather_slices(values);
  CHECK(std::count(api.calls.begin(), api.calls.end(), "all_gather 16") == 1);
}

TEST_CASE("a gather of slices that fails, or that is never carried out, ends with 69 or 76") {
  for (const bool hangs : {false, true}) {
    std::atomic<int> code{0};
    auto wire = std::make_shared<NcclWire>();
    run_ranks(2, [&](Communicator& host) {
      StandInNccl api(wire);
      if (hangs) api.hanging = "all_gather";
      if (!hangs) api.failing["all_gather"] = NcclResult::remote_error;
      const auto comm = make_nccl_communicator(api, host, 0.5);
      at::Tensor values = at::ones(4);
      try {
        comm->gather_slices(values);
      } catch (const Error& error) {
        code = error.code();
      }
    });
    CHECK(code == (hangs ? exit_code::kStalled : exit_code::kPeerFailed));
  }
}

TEST_CASE("a call that is never carried out ends at the limit, with 76") {
  for (const char* call : {"init_rank", "group_end", "all_reduce"}) {
    StandInNccl api(std::make_shared<NcclWire>());
    api.hanging = call;
    const auto host = make_serial_communicator();
    int code = 0;
    try {
      const auto comm = make_nccl_communicator(api, *host, 0.05);
      at::Tensor one = at::ones(1);
      comm->exchange({{0, one}}, {});
      comm->all_reduce(one);
    } catch (const Error& error) {
      code = error.code();
    }
    INFO(call);
    CHECK(code == exit_code::kStalled);
    CHECK(api.calls.back() == "abort");
  }
}

TEST_CASE("work that is not done on the device when the limit has passed since the last call ends with 76") {
  std::string sentence;
  const std::vector<std::string> calls = calls_of(nothing, [&](Communicator& comm, StandInNccl&) {
    at::Tensor one = at::ones(1);
    comm.all_reduce(one);
    comm.require_healthy();
    const Stopwatch waited;
    try {
      while (waited.seconds() < 20) comm.require_healthy();  // calls_of() has a limit of 0.2 s
    } catch (const Error& error) {
      sentence = std::to_string(error.code()) + " " + error.what();
    }
  });
  CHECK(sentence == "76 a sum over ranks was not carried out for 0.2 s: a peer is gone or the network is down");
  CHECK(calls.back() == "abort");
}
