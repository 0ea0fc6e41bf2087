// The module of the host's GPU, in the place of libdtrain_cuda.so: the whole program runs on it as on a GPU, with the
// tests' NCCL between its ranks. DTRAIN_HOST_GPU_SEED: of the delays of its streams (default 1); DTRAIN_HOST_GPU_MB:
// its memory (default 2000); DTRAIN_HOST_GPU_PLANT: a mistake of planted.hpp. The program also wants the tests' driver
// (tests/unit/device). Work without an order ends it.
#include <cstdlib>

#include "dtrain/base/module_stamp.hpp"
#include "dtrain/cuda/real_nccl.hpp"
#include "dtrain/device/gpu_module.hpp"
#include "support/host_gpu/host_gpu.hpp"
#include "support/host_gpu/order.hpp"
#include "support/host_gpu/planted.hpp"
#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

constexpr int64_t kMostPause_us = 10;

[[gnu::section(".note.dtrain"), gnu::used]] alignas(4) constexpr auto kStamp = module_stamp(DTRAIN_BUILD_STAMP);

const char* setting(const char* variable, const char* otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : given;
}

GpuModule& module() {
  static const std::unique_ptr<GpuModule> only = [] {
    WorkOrder::all().end_at_fault();
    const std::string mistake = setting("DTRAIN_HOST_GPU_PLANT", "");
    if (mistake != "boundless")
      limit_host_gpu_memory(std::strtoull(setting("DTRAIN_HOST_GPU_MB", "2000"), nullptr, 10) * 1'000'000);
    const uint64_t seed = std::strtoull(setting("DTRAIN_HOST_GPU_SEED", "1"), nullptr, 10);
    const Device gpu = make_host_gpu(seed, kMostPause_us, ordered_nccl(make_real_nccl(kHostGpu, host_gpu_stream)));
    return with_planted(*gpu.module, mistake);
  }();
  return *only;
}

}  // namespace
}  // namespace dtrain::test

extern "C" __attribute__((visibility("default")))
const dtrain::GpuModuleEntry dtrain_gpu_module_entry = {DTRAIN_BUILD_STAMP, dtrain::test::module};
