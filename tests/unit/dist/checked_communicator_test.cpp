#include "dtrain/dist/checked_communicator.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;

// Runs `body` on ranks with checked communicators and returns the error's sentence, "" without one.
template <typename Expected>
static std::string sentence_of(int ranks, const std::function<void(Communicator&)>& body, double limit_s = 20) {
  try {
    run_ranks(ranks, [&](Communicator& comm) { body(*with_order_checked(comm.duplicate(), limit_s)); });
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

static void require_disorder(const std::string& sentence, const std::vector<std::string>& parts) {
  INFO(sentence);
  CHECK(sentence.find(": a collective was called out of order") != std::string::npos);
  for (const std::string& part : parts) CHECK(sentence.find(part) != std::string::npos);
}

static void send(Communicator& comm, int peer, int64_t numel) { comm.exchange({{peer, at::zeros({numel})}}, {}); }
static void receive(Communicator& comm, int peer, int64_t numel) { comm.exchange({}, {{peer, at::zeros({numel})}}); }

TEST_CASE("what is called in order goes through a checked communicator unchanged") {
  for (int ranks = 1; ranks <= 4; ++ranks)
    CHECK(sentence_of<std::exception>(ranks, [](Communicator& comm) {
            test::check_collectives(comm);
            for (const Reduction reduction :
                 {Reduction::canonical, Reduction::ring, Reduction::fastest, Reduction::root_cpu})
              test::check_bucket_sum(comm, reduction, 5);
            test::check_reducer(comm, 7, 0.001);
          }) == "");
}

TEST_CASE("two collectives in another order on one rank are told with their numbers and sizes") {
  const std::string sentence = sentence_of<InternalError>(2, [](Communicator& comm) {
    at::Tensor value = at::zeros({100}, at::kFloat);
    for (int i = 0; i < 3; ++i) barrier(comm);
    if (comm.rank() == 0) barrier(comm);
    broadcast(comm, value);
    if (comm.rank() == 1) barrier(comm);
  });
  require_disorder(sentence, {"rank 1 is at exchange 4 (receives 400 bytes)",
                              "where rank 0 is at exchange 4 (sends 8 bytes, receives 8 bytes)"});
}

TEST_CASE("messages of another size, type or number are told before they mix") {
  const auto swapped = [](int64_t sent, int64_t received, at::ScalarType type) {
    return sentence_of<InternalError>(2, [&](Communicator& comm) {
      if (comm.rank() == 0)
        send(comm, 1, sent);
      else
        comm.exchange({}, {{0, at::zeros({received}, type)}});
    });
  };
  require_disorder(swapped(2, 3, at::kFloat), {"sends 8 bytes", "receives 12 bytes"});
  require_disorder(swapped(2, 2, at::kInt), {});
  require_disorder(sentence_of<InternalError>(2,
                                              [](Communicator& comm) {
                                                const at::Tensor part = at::zeros({2}, at::kFloat);
                                                if (comm.rank() == 0)
                                                  comm.exchange({{1, part}, {1, part}}, {});
                                                else
                                                  receive(comm, 0, 4);
                                              }),
                   {"16 bytes"});
  CHECK(swapped(4, 4, at::kFloat) == "");
}

TEST_CASE("all_reduce, share and duplicate are told apart") {
  const std::vector<std::function<void(Communicator&)>> calls = {[](Communicator& comm) {
                                                                   at::Tensor value = at::zeros({2}, at::kFloat);
                                                                   comm.all_reduce(value);
                                                                 },
                                                                 [](Communicator& comm) { comm.share(2, c10::kCPU); },
                                                                 [](Communicator& comm) { comm.duplicate(); },
                                                                 [](Communicator& comm) { barrier(comm); }};
  const std::vector<std::string> words = {"all_reduce of 8 bytes", "share of 8 bytes", "duplicate",
                                          "sends 8 bytes, receives 8 bytes"};
  for (size_t a = 0; a < calls.size(); ++a)
    for (size_t b = 0; b < calls.size(); ++b) {
      const std::string sentence =
          sentence_of<InternalError>(3, [&](Communicator& comm) { calls[comm.rank() == 1 ? b : a](comm); });
      if (a == b)
        CHECK(sentence == "");
      else
        require_disorder(sentence, {words[a], words[b]});
    }
}

TEST_CASE("a duplicate is checked as well, by numbers of its own") {
  const std::string sentence = sentence_of<InternalError>(2, [](Communicator& comm) {
    barrier(comm);
    const auto copy = comm.duplicate();
    barrier(*copy);
    if (comm.rank() == 0)
      send(*copy, 1, 1);
    else
      send(*copy, 0, 1);
  });
  require_disorder(sentence, {"is at exchange 2 (sends 4 bytes) where"});
}

TEST_CASE("ranks that wait for each other in a ring end after the limit") {
  const std::string sentence = sentence_of<CommError>(
      3, [](Communicator& comm) { receive(comm, (comm.rank() + 1) % 3, 1); }, 0.3);
  CHECK(sentence.find("waits for rank") != std::string::npos);
  CHECK(sentence.find("at exchange 1 (receives 4 bytes)") != std::string::npos);
}
