#include "dtrain/device/gpu_facts.hpp"

#include <cstdlib>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("what chooses a GPU's kernels is asked of the driver, and absent where nobody answers") {
  const GpuLibraries nowhere{"no-driver.so.1", "no-nvml.so.1", "no-cudnn.so.9", "no-cublas.so.13"};
  CHECK(gpu_facts(0, nowhere).empty());
  const char* driver = std::getenv("DTRAIN_STAND_IN_DRIVER");
  const char* nvml = std::getenv("DTRAIN_STAND_IN_NVML");
  if (driver == nullptr || nvml == nullptr) return test::skip("DTRAIN_STAND_IN_DRIVER or _NVML names no stand-in");
  const GpuLibraries libraries{driver, nvml, "no-cudnn.so.9", "no-cublas.so.13"};
  CHECK(gpu_facts(1, libraries) == GpuFacts{{"driver", "580.65.06"}, {"multiprocessors", "132"}});
  setenv("STAND_IN_MULTIPROCESSORS", "14", 1);
  CHECK(gpu_facts(1, libraries).at("multiprocessors") == "14");
  unsetenv("STAND_IN_MULTIPROCESSORS");
}

TEST_CASE("variables that change plans are told if they are set") {
  for (const char* name : {"TORCH_CUDNN_USE_HEURISTIC_MODE_B", "CUBLAS_WORKSPACE_CONFIG"}) unsetenv(name);
  const GpuFacts before = plan_settings();
  CHECK(before.count("TORCH_CUDNN_USE_HEURISTIC_MODE_B") == 0);
  setenv("TORCH_CUDNN_USE_HEURISTIC_MODE_B", "1", 1);
  CHECK(plan_settings().at("TORCH_CUDNN_USE_HEURISTIC_MODE_B") == "1");
  CHECK(plan_settings().size() == before.size() + 1);
  unsetenv("TORCH_CUDNN_USE_HEURISTIC_MODE_B");
}

TEST_CASE("what has changed is told by name, with both values, where both are known") {
  const GpuFacts then = {{"cudnn", "9.10.2"}, {"driver", "570.1"}, {"torch", "2.11.0"}, {"device", "H100"}};
  const GpuFacts now = {{"cudnn", "9.15.1"}, {"cublas", "13.1.0"}, {"driver", "580.65.06"}, {"device", "H100"}};
  CHECK(changed_facts(then, now) == "cudnn 9.10.2 → 9.15.1, driver 570.1 → 580.65.06");
  CHECK(changed_facts(then, then).empty());
}
