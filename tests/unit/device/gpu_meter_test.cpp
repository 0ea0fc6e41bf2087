#include "dtrain/device/gpu_meter.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/device/late_library.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

// The file of the stand-in; none if it is absent, and then the test counts as skipped: only a build tree has it.
const char* stand_in_nvml() {
  const char* file = std::getenv("DTRAIN_STAND_IN_NVML");
  if (file == nullptr) test::skip("DTRAIN_STAND_IN_NVML names no stand-in for NVML");
  return file;
}

void wait_until(const LateLibrary& nvml, const char* count, int least) {
  const Stopwatch waited;
  while (nvml.call(count) < least && waited.seconds() < 60) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(nvml.call(count) >= least);
}

// Sets the GPU's next samples, percent and bytes. Once a call has found none, all of them have been counted.
void let_see(const LateLibrary& nvml, const std::vector<std::pair<unsigned, unsigned long long>>& samples) {
  for (const auto& [percent, used] : samples) nvml.call("stand_in_sample", percent, used);
  wait_until(nvml, "stand_in_failed", 1);
}

GpuMeter::Options often(const std::string& library) {
  return {.period_s = 0.001, .patience_s = 60, .library = library};
}

}  // namespace

TEST_CASE("without NVML, or without a GPU, there are no figures") {
  for (const char* uuid : {"GPU-known", ""}) {
    GpuMeter meter(uuid, often("libnvidia-ml-that-is-not-there.so.1"));
    CHECK_FALSE(meter.take().util_percent);
    CHECK_FALSE(meter.take().memory_peak_mb);
  }
}

TEST_CASE("the load of a GPU is the mean of its samples since the last look, its memory the most so far") {
  const char* file = stand_in_nvml();
  if (file == nullptr) return;
  const LateLibrary nvml(file);
  {
    GpuMeter meter("GPU-known", often(file));
    let_see(nvml, {{10, 2'000'000'000}, {50, 5'000'000'000}, {96, 3'000'000'000}});
    const GpuUse first = meter.take();
    CHECK(first.util_percent == 52);
    CHECK(first.memory_peak_mb == 5000);
    const GpuUse second = meter.take();
    CHECK_FALSE(second.util_percent);  // nothing was sampled meanwhile, which is not the same as nothing to do
    CHECK(second.memory_peak_mb == 5000);
    let_see(nvml, {{0, 1'000'000'000}, {1, 6'000'000'000}});
    const GpuUse third = meter.take();
    CHECK(third.util_percent == 0.5);
    CHECK(third.memory_peak_mb == 6000);
    CHECK(nvml.call("stand_in_started") == 1);
  }
  CHECK(nvml.call("stand_in_started") == 0);
}

TEST_CASE("a GPU that NVML does not know, as a part of a divided one, has no figures") {
  const char* file = stand_in_nvml();
  if (file == nullptr) return;
  const LateLibrary nvml(file);
  const int asked = nvml.call("stand_in_failed");
  {
    const int unknown = nvml.call("stand_in_unknown");
    GpuMeter meter("GPU-another", often(file));
    wait_until(nvml, "stand_in_unknown", unknown + 1);
    CHECK_FALSE(meter.take().util_percent);
    CHECK_FALSE(meter.take().memory_peak_mb);
  }
  CHECK(nvml.call("stand_in_failed") == asked);
  CHECK(nvml.call("stand_in_started") == 0);
}

TEST_CASE("a call of NVML that does not return holds up neither the start nor the end of a meter") {
  const char* file = stand_in_nvml();
  if (file == nullptr) return;
  const LateLibrary nvml(file);
  nvml.call("stand_in_hang", 1);
  const Stopwatch taken;
  {
    GpuMeter::Options options = often(file);
    options.patience_s = 0.05;
    GpuMeter meter("GPU-known", options);
    wait_until(nvml, "stand_in_started", 1);
    CHECK_FALSE(meter.take().util_percent);
  }
  CHECK(taken.seconds() < 60);  // it would hang for ever
  nvml.call("stand_in_hang", 0);
  while (nvml.call("stand_in_started") > 0 && taken.seconds() < 60)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(nvml.call("stand_in_started") == 0);  // the thread goes on by itself, and ends
}
