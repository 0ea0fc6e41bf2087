#include "dtrain/watch/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "dtrain/base/time.hpp"
#include "dtrain/watch/stack_trace.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

namespace {

// Ranks of one job in one process: each has a watchdog, and records what its handlers are called with.
struct Ranks {
  explicit Ranks(
      int count, const WatchLimits& limits, const std::function<void()>& look = [] {})
      : ended(static_cast<size_t>(count)) {
    for (int r = 0; r < count; ++r) {
      Watchdog::Handlers handlers;
      handlers.warn = [this, r](const std::string& text) { note(warned, r, text); };
      handlers.tell = [this, r](const std::string& text) { note(told, r, text); };
      handlers.end = [this, r] { ended[static_cast<size_t>(r)].set_value(); };
      handlers.look = look;
      all.push_back(std::make_unique<Watchdog>(
          Watchdog::Options{.limits = limits, .rank = r, .ranks = count, .host = "here"}, handlers));
      all.back()->keep_records([this, r](const FlightRecord& record) {
        const std::lock_guard lock(mutex);
        records[r] = record;
      });
    }
  }
  void connect() {
    std::vector<std::string> offers;
    for (const auto& one : all) offers.push_back(one->offer());
    for (const auto& one : all) one->connect(offers, nullptr);
  }
  // Sleeps in turns: the thread sanitizer holds signals back while a thread waits in a future.
  bool ends(int rank, double seconds = 60) {
    const std::future<void> end = ended[static_cast<size_t>(rank)].get_future();
    const Stopwatch waited;
    while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      if (waited.seconds() > seconds) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  void note(std::map<int, std::vector<std::string>>& list, int rank, const std::string& text) {
    const std::lock_guard lock(mutex);
    list[rank].push_back(text);
  }

  std::mutex mutex;
  std::map<int, std::vector<std::string>> warned;
  std::map<int, std::vector<std::string>> told;
  std::map<int, FlightRecord> records;
  std::vector<std::promise<void>> ended;
  std::vector<std::unique_ptr<Watchdog>> all;
};

}  // namespace

TEST_CASE("a stall is noticed and told with section and step") {
  Ranks ranks(1, {0.1, 0.3});
  ranks.all[0]->enter(Section::load, 17);
  REQUIRE(ranks.ends(0));
  ranks.all.clear();
  REQUIRE(ranks.told[0].size() == 1);
  CHECK(holds(ranks.told[0][0], "in data loading (step 17)"));
  CHECK(ranks.warned[0].size() == 1);
}

TEST_CASE("of several ranks the lowest one tells whom all wait for, and each leaves a record") {
  Ranks ranks(3, {0.2, 0.6});
  ranks.connect();
  for (const auto& one : ranks.all) {
    one->enter(Section::reduce, 5);
    one->begin_sum();
  }
  ranks.all[2]->enter(Section::compute, 5);
  for (int r = 0; r < 3; ++r) REQUIRE(ranks.ends(r));
  ranks.all.clear();
  REQUIRE(ranks.told[0].size() == 1);
  CHECK(holds(ranks.told[0][0],
              "in all-reduce 1 (step 5); waiting for rank 2, last seen in forward and backward at step 5"));
  CHECK(ranks.told.size() == 1);
  CHECK(ranks.warned.size() == 1);
  REQUIRE(ranks.records.size() == 3);
  for (auto& [rank, record] : ranks.records) {
    CHECK(record.rank == rank);
    CHECK(record.waited_for == std::vector<int>{2});
    CHECK(record.peers.size() == 3);
    REQUIRE(record.events.size() >= 3);
    CHECK(record.events[1].what == "all-reduce");
    CHECK(record.events[2].what == "all-reduce begins");
    CHECK_FALSE(record.stack.empty());
  }
}

TEST_CASE("a rank that does not speak is spoken for by the next one") {
  Ranks ranks(2, {10, 0.4});
  ranks.connect();
  ranks.all[0].reset();  // its process is gone, but not its page
  REQUIRE(ranks.ends(1));
  ranks.all.clear();
  REQUIRE(ranks.told[1].size() == 1);
  CHECK(holds(ranks.told[1][0], "waiting for rank 0, last seen in start-up on here: no sign of life"));
}

// The rank makes progress at the checks of its watchdog, so that a slow machine slows both.
TEST_CASE("a rank that goes on is left alone") {
  constexpr int kGoesOn = 40;  // looks: 0.8 s and more
  std::atomic<int> looks{0};
  std::atomic<Watchdog*> watchdog{nullptr};
  Ranks ranks(1, {0.1, 0.3}, [&] {
    if (Watchdog* const known = watchdog; known != nullptr && ++looks <= kGoesOn) known->enter(Section::compute, looks);
  });
  watchdog = ranks.all[0].get();
  REQUIRE(ranks.ends(0));  // it makes no more progress, and is ended
  ranks.all.clear();
  CHECK(looks > kGoesOn);
  CHECK(ranks.warned[0].size() == 1);
  REQUIRE(ranks.told[0].size() == 1);
  CHECK(holds(ranks.told[0][0], "in forward and backward (step " + std::to_string(kGoesOn) + ")"));
}

TEST_CASE("a failure leaves the records of all ranks") {
  Ranks ranks(2, {10, 60});
  ranks.connect();
  ranks.all[1]->enter(Section::load, 3);
  ranks.all[1]->note_failure("no such picture");
  for (int tries = 0; tries < 6000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::lock_guard lock(ranks.mutex);
    if (ranks.records.size() == 2) break;
  }
  ranks.all.clear();
  REQUIRE(ranks.records.size() == 2);
  CHECK(ranks.records[1].reason == "failure");
  CHECK(ranks.records[1].sentence == "no such picture");
  CHECK(ranks.records[0].reason == "failure of another rank");
  CHECK(ranks.told.empty());
}

TEST_CASE("what is heard of another host stands in for what cannot be seen, and older words are dropped") {
  RankPage near;
  RankPage far;
  RankTable there(1, far.words(), {near.offer("a"), far.offer("b")});
  RankTable here(0, near.words(), {near.offer("a"), far.offer("b")});
  CHECK_FALSE(here.same_host(1));
  far.words().beat.store(5);
  far.words().step.store(9);
  far.words().section.store(Section::update);
  const std::vector<std::byte> earlier = there.message();
  far.words().beat.store(6);
  far.words().step.store(10);
  here.heard(there.message());
  here.heard(earlier);
  here.heard(std::span(earlier).first(7));
  CHECK(here.states()[1].step == 10);
  CHECK(here.states()[1].section == Section::update);
  CHECK(here.states()[1].same_host == 0);
  RankTable neighbour(0, near.words(), {near.offer("a"), far.offer("a")});
  CHECK(neighbour.same_host(1));
  CHECK(neighbour.states()[1].step == 10);
}

TEST_CASE("a page that is not the one offered is not taken for it") {
  RankPage page;
  RankPage other;
  std::string wrong = other.offer("a");
  wrong.back() = wrong.back() == '1' ? '2' : '1';
  CHECK_FALSE(RankTable(0, page.words(), {page.offer("a"), wrong}).same_host(1));
  CHECK_FALSE(RankTable(0, page.words(), {page.offer("a"), "a 1 -1 0"}).same_host(1));
  CHECK_FALSE(RankTable(0, page.words(), {page.offer("a"), "nonsense"}).same_host(1));
}

TEST_CASE("a thread that sleeps tells where it is") {
  install_stack_signal();
  std::atomic<bool> leave{false};
  std::promise<pthread_t> self;
  std::thread sleeper([&] {
    self.set_value(pthread_self());
    while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  const std::vector<std::string> stack = stack_of(self.get_future().get(), 30);
  leave = true;
  sleeper.join();
  REQUIRE(stack.size() >= 2);
  CHECK(std::any_of(stack.begin(), stack.end(), [](const std::string& line) { return holds(line, "test_watch"); }));
}
