#include "support/nccl/patience.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace dtrain::test {

void Patience::pause() {
  constexpr double kPause_s = 50e-6;
  if (++looks_ < 200) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
  waited_s_ += kPause_s;  // at least: a process that was stopped has not waited
  if (waited_s_ < 120) return;
  std::fprintf(stderr, "the tests' NCCL waited for two minutes: %s\n", what_);
  std::abort();
}

}  // namespace dtrain::test
