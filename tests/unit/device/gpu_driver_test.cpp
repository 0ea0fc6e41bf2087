#include "dtrain/device/gpu_driver.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

// The file of the stand-in; none if it is absent, and then the test counts as skipped: only a build tree has it.
static const char* stand_in_driver() {
  const char* file = std::getenv("DTRAIN_STAND_IN_DRIVER");
  if (file == nullptr) test::skip("DTRAIN_STAND_IN_DRIVER names no stand-in for the driver");
  return file;
}

TEST_CASE("a machine without a driver has no GPU, and says so") {
  const GpuDriver driver = ask_gpu_driver("libcuda-that-is-not-there.so.1");
  CHECK(driver.gpus.empty());
  CHECK(driver.version.empty());
  CHECK(driver.problem == "no NVIDIA driver (libcuda-that-is-not-there.so.1) on this machine");
}

TEST_CASE("the driver tells its version and every GPU") {
  const char* file = stand_in_driver();
  if (file == nullptr) return;
  const GpuDriver driver = ask_gpu_driver(file);
  CHECK(driver.version == "13.1");
  CHECK(driver.problem.empty());
  REQUIRE(driver.gpus.size() == 2);
  CHECK(driver.gpus[0].name == "Stand-in GPU 0");
  CHECK(driver.gpus[1].name == "Stand-in GPU 1");
  CHECK(driver.gpus[1].uuid == "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1");
  CHECK(driver.gpus[0].compute_major == 9);
  CHECK(driver.gpus[0].compute_minor == 0);
  CHECK(driver.gpus[0].memory_mb == 80000);
  CHECK(driver.gpus[0].pci.empty());
  setenv("STAND_IN_PCI", "0000:65:00.0", 1);
  CHECK(ask_gpu_driver(file).gpus[1].pci == "0000:65:00.0");
  unsetenv("STAND_IN_PCI");
}

TEST_CASE("the cores near a GPU are those that the kernel lists for its place on the bus") {
  const test::TemporaryFolder devices;
  std::filesystem::create_directory(devices / "0000:c1:00.0");
  std::ofstream(devices / "0000:c1:00.0/local_cpulist") << "32-34,96-97\n";
  CHECK(cores_near("0000:C1:00.0", devices.path()) == std::vector<int>{32, 33, 34, 96, 97});
  CHECK(cores_near("0000:C2:00.0", devices.path()).empty());
  CHECK(cores_near("", devices.path()).empty());
}

TEST_CASE("a rank runs on those of its cores that are near its GPU, and on all of them where none is") {
  const std::vector<int> all{0, 1, 2, 3, 4, 5};
  CHECK(cores_to_run_on(all, {4, 5, 6, 7}) == std::vector<int>{4, 5});
  CHECK(cores_to_run_on(all, {}) == all);
  CHECK(cores_to_run_on({0, 1}, {4, 5, 6, 7}) == std::vector<int>{0, 1});
}

TEST_CASE("a driver that does not start, or shows no GPU, says why") {
  const char* file = stand_in_driver();
  if (file == nullptr) return;
  setenv("STAND_IN_INIT", "803", 1);
  CHECK(ask_gpu_driver(file).problem ==
        "the NVIDIA driver does not start: system has unsupported display driver / cuda driver combination");
  setenv("STAND_IN_INIT", "100", 1);
  CHECK(ask_gpu_driver(file).problem == "the NVIDIA driver does not start: error 100");
  unsetenv("STAND_IN_INIT");
  setenv("STAND_IN_GPUS", "0", 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(ask_gpu_driver(file).problem == "the NVIDIA driver shows no GPU");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(ask_gpu_driver(file).problem == "CUDA_VISIBLE_DEVICES= leaves no GPU");
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("STAND_IN_GPUS");
}
