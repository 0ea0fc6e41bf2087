#include "dtrain/dist/watchdog.hpp"

#include <chrono>
#include <future>
#include <thread>

#include "dtrain/dist/launch.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("a stall is noticed and told with section and step") {
  std::promise<std::string> told;
  Watchdog watchdog(0.2, [&](const std::string& sentence) { told.set_value(sentence); });
  watchdog.enter(Section::load, 17);
  auto sentence = told.get_future();
  REQUIRE(sentence.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  const std::string text = sentence.get();
  CHECK(text.find("data loading") != std::string::npos);
  CHECK(text.find("step 17") != std::string::npos);
}

TEST_CASE("a rank that goes on is left alone") {
  bool stalled = false;
  Watchdog watchdog(5, [&](const std::string&) { stalled = true; });
  for (int i = 0; i < 20; ++i) {
    watchdog.enter(Section::compute, i);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK_FALSE(stalled);
}

TEST_CASE("core numbers are told as ranges") {
  CHECK(core_ranges({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(core_ranges({5}) == "5");
  for (const std::vector<int>& cores : {std::vector<int>{}, {5}, {0, 1, 2, 3, 8}, {1, 3, 10, 11}})
    CHECK(read_core_ranges(core_ranges(cores)) == cores);
  CHECK_FALSE(bound_cores().empty());
}
