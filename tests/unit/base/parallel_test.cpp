#include "dtrain/base/parallel.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace dtrain;

namespace {

// The message of what a run throws; "" for nothing.
std::string thrown(size_t count, size_t threads, const std::function<void(size_t)>& work,
                   const std::function<void()>& tick = nullptr) {
  try {
    run_in_parallel(count, threads, work, tick);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

TEST_CASE("every number is worked on once, and results are the same for any number of threads") {
  for (const size_t count : {0, 1, 2, 100})
    for (const size_t threads : {1, 2, 3, 7}) {
      CAPTURE(count, threads);
      std::vector<size_t> results(count);
      run_in_parallel(count, threads, [&](size_t i) { results[i] += i * i + 1; });
      for (size_t i = 0; i < count; ++i) CHECK(results[i] == i * i + 1);
    }
}

TEST_CASE("work runs beside the calling thread, on no more threads than were asked for") {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  std::atomic<int> on_caller{0};
  const std::thread::id caller = std::this_thread::get_id();
  run_in_parallel(20, 3, [&](size_t) {
    const int now = ++at_once;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    on_caller += std::this_thread::get_id() == caller ? 1 : 0;
    sleep_ms(1);
    --at_once;
  });
  CHECK(most <= 3);
  CHECK(on_caller == 0);
}

TEST_CASE("what work throws reaches the caller, and nothing new begins") {
  std::atomic<size_t> begun{0};
  CHECK(thrown(1000, 2, [&](size_t i) {
          ++begun;
          if (i == 3) throw std::runtime_error("three");
          sleep_ms(1);
        }) == "three");
  CHECK(begun < 1000);
}

TEST_CASE("of several errors that of the lowest number is thrown, whichever came first") {
  std::atomic<bool> second_has_thrown{false};
  CHECK(thrown(2, 2, [&](size_t i) {
          if (i == 1) {
            second_has_thrown = true;
            throw std::runtime_error("one");
          }
          while (!second_has_thrown) sleep_ms(1);
          sleep_ms(20);
          throw std::runtime_error("zero");
        }) == "zero");
}

TEST_CASE("ticks come on the calling thread while work goes on") {
  std::atomic<bool> ticked{false};
  bool on_caller = false;
  const std::thread::id caller = std::this_thread::get_id();
  run_in_parallel(
      1, 2,
      [&](size_t) {
        while (!ticked) sleep_ms(1);
      },
      [&] {
        on_caller = std::this_thread::get_id() == caller;
        ticked = true;
      });
  CHECK(on_caller);
}

TEST_CASE("what a tick throws ends the work after what has begun") {
  std::atomic<bool> ticked{false};
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  CHECK(thrown(
            1000, 2,
            [&](size_t) {
              ++begun;
              while (!ticked) sleep_ms(1);
              sleep_ms(5);
              ++ended;
            },
            [&] {
              ticked = true;
              throw std::runtime_error("stopped");
            }) == "stopped");
  CHECK(begun == ended);
  CHECK(begun < 1000);
}
