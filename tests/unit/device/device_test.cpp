#include "dtrain/device/device.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/device/gpu_errors.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a rank takes the GPU of its local rank, or the only one that it sees") {
  const std::vector<GpuView> two_nodes = {{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 4}, {"b", 1, 4}, {"b", 2, 4}};
  const int expected[] = {0, 1, 0, 1, 2};
  for (size_t rank = 0; rank < two_nodes.size(); ++rank) CHECK(choose_gpu(two_nodes, rank, false) == expected[rank]);
  const std::vector<GpuView> handed_out = {{"a", 0, 1}, {"a", 1, 1}, {"a", 2, 1}};
  for (size_t rank = 0; rank < 3; ++rank) CHECK(choose_gpu(handed_out, rank, false) == 0);
}

TEST_CASE("ranks that share take the GPUs in turn") {
  const std::vector<GpuView> views = {{"a", 0, 2}, {"a", 1, 2}, {"a", 2, 2}, {"a", 3, 2}};
  const int expected[] = {0, 1, 0, 1};
  for (size_t rank = 0; rank < views.size(); ++rank) CHECK(choose_gpu(views, rank, true) == expected[rank]);
}

TEST_CASE("more ranks than GPUs, and a rank without one, are refused with what cures it") {
  const std::vector<GpuView> views = {{"a", 0, 2}, {"a", 1, 2}, {"a", 2, 2}, {"b", 0, 0}};
  const std::string crowded = refusal([&] { choose_gpu(views, 2, false); });
  CHECK(crowded.find("a has 3 ranks but shows 2 GPUs; start one rank per GPU (mpirun --map-by ppr:2:node") == 0);
  const std::string none = refusal([&] { choose_gpu(views, 3, false); });
  CHECK(none.find("b shows no GPU to rank 3 while others have one") == 0);
}

TEST_CASE("two ranks on one GPU are named, with the host; the same number on two hosts is no clash") {
  CHECK(refusal([] { require_own_gpus({"a", "a", "b"}, {"GPU-1", "GPU-2", "GPU-1"}); }).empty());
  const std::string clash = refusal([] {
    require_own_gpus({"a", "b", "b", "b"}, {"GPU-1", "GPU-7", "GPU-8", "GPU-7"});
  });
  CHECK(clash.find("ranks 1 and 3 on b have the same GPU (GPU-7)") == 0);
  CHECK(clash.find("--gpus-per-task") != std::string::npos);
  CHECK(clash.find("distributed.share_device") != std::string::npos);
}

TEST_CASE("ranks divide a GPU where one place on one host's bus is that of two") {
  CHECK_FALSE(divide_a_gpu({"a", "a", "b"}, {"0000:65:00.0", "0000:66:00.0", "0000:65:00.0"}));
  CHECK(divide_a_gpu({"a", "b", "a"}, {"0000:65:00.0", "0000:65:00.0", "0000:65:00.0"}));
  CHECK_FALSE(divide_a_gpu({"a", "a"}, {"", ""}));  // the driver does not say
}

TEST_CASE("what libraries say of a GPU without memory, and of one that failed, is known by its words") {
  for (const char* words :
       {"CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"}) {
    INFO(words);
    CHECK(tells_of_gpu_memory(words));
    CHECK(tells_of_gpu(words));
  }
  for (const char* words :
       {"CUDA error: an illegal memory access was encountered", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasSgemm(handle)`"}) {
    INFO(words);
    CHECK_FALSE(tells_of_gpu_memory(words));
    CHECK(tells_of_gpu(words));
  }
  CHECK_FALSE(tells_of_gpu("shape mismatch"));
}

TEST_CASE("without a device given, tensors and loops are the CPU's") {
  const Device device;
  CHECK(device.place.is_cpu());
  CHECK(device.math == &host_math());
  CHECK(device.module == nullptr);
}
