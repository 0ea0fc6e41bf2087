#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <typeinfo>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/module_stamp.hpp"
#include "dtrain/cuda/kernels.hpp"
#include "dtrain/cuda/norm_chunks.hpp"
#include "dtrain/cuda/norm_kernels.hpp"
#include "dtrain/cuda/real_nccl.hpp"
#include "dtrain/device/gpu_errors.hpp"
#include "dtrain/device/gpu_module.hpp"

namespace dtrain {
namespace {

// A launch fails if it is itself wrong, or if an earlier kernel failed (this process then cannot use the device again).
void cuda_check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  if (code == cudaErrorMemoryAllocation)  // of the kernel's code, which is loaded when it is first used
    throw Error(exit_code::kOutOfMemory,
                std::string("out of memory on the GPU for ") + what + "; lower batch.per_rank or data.image.size");
  throw DeviceError(std::string(what) + " failed on the GPU: " + cudaGetErrorString(code));
}

cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

static_assert(kernels::Sum::kAdd == FlatMath::kAdd);

class CudaMath final : public FlatMath {
 public:
  void add(float* into, const float* from, int64_t numel) const override {
    cuda_check(kernels::add(into, from, numel, current_stream()), "adding gradients");
  }

  void sum(std::span<const int> program, int depth, const std::vector<const float*>& inputs,
           const std::vector<float*>& outputs, int64_t numel) const override {
    check(inputs.size() <= kernels::Sum::kMostInputs && program.size() <= 2 * kernels::Sum::kMostInputs &&
              depth <= kernels::Sum::kMostDepth,
          "a sum on the GPU has at most 512 inputs");
    kernels::Sum sum{};
    std::copy(inputs.begin(), inputs.end(), sum.inputs);
    std::copy(program.begin(), program.end(), sum.program);
    sum.length = static_cast<int>(program.size());
    cuda_check(kernels::sum(sum, outputs.front(), numel, current_stream()), "adding gradients");
    for (size_t i = 1; i < outputs.size(); ++i)
      cuda_check(cudaMemcpyAsync(outputs[i], outputs.front(), static_cast<size_t>(numel) * sizeof(float),
                                 cudaMemcpyDeviceToDevice, current_stream()),
                 "copying gradients");
  }

  void update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
              int32_t* not_finite) const override {
    cuda_check(kernels::update(rule, slices, factors, not_finite, current_stream()), "the optimizer's update");
  }

  void measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums) const override {
    cuda_check(kernels::measure(rule, slices, factors, sums, current_stream()), "the norms of the optimizer's update");
  }

  std::vector<double> sums_of_squares(const float* values, const std::vector<Range>& ranges) const override {
    const auto count = static_cast<int64_t>(ranges.size());
    const NormChunks chunks = cut_for_norm(ranges, kernels::kNormChunk);
    const int64_t chunk_count = chunks.first.back();
    std::vector<int64_t> table = chunks.bounds;
    table.insert(table.end(), chunks.first.begin(), chunks.first.end());
    const at::Tensor on_device = at::tensor(table, at::kLong).to(at::kCUDA);
    const auto* bounds = on_device.const_data_ptr<int64_t>();
    const at::Tensor parts = at::empty({chunk_count}, on_device.options().dtype(at::kDouble));
    const at::Tensor sums = at::empty({count}, parts.options());
    constexpr const char* kWhat = "the norm of the gradients";
    cuda_check(kernels::sums_of_squares(values, bounds, static_cast<int>(chunk_count), parts.mutable_data_ptr<double>(),
                                        current_stream()),
               kWhat);
    cuda_check(kernels::sums_of_parts(parts.const_data_ptr<double>(), bounds + chunks.bounds.size(),
                                      static_cast<int>(count), sums.mutable_data_ptr<double>(), current_stream()),
               kWhat);
    const at::Tensor back = sums.cpu();
    const double* first = back.const_data_ptr<double>();
    return {first, first + count};
  }

  void finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out) const override {
    cuda_check(kernels::finish_pictures(form, pictures, count, out, current_stream()), "normalising pictures");
  }
  void finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes,
                    float* out) const override {
    cuda_check(kernels::finish_masks(form, masks, count, classes, out, current_stream()), "making masks");
  }
};

class CudaNorms final : public NormMath {
 public:
  void statistics(const NormShape& shape, NormInput x, float* mean, float* variance,
                  const NormRunning& running) const override {
    const at::Tensor parts = parts_of(shape);
    cuda_check(
        kernels::norm_statistics(shape, x, parts.mutable_data_ptr<float>(), mean, variance, running, current_stream()),
        kWhat);
  }
  void move_statistics(const NormShape& shape, const float* mean, const float* variance,
                       const NormRunning& running) const override {
    cuda_check(kernels::norm_move(shape, mean, variance, running, current_stream()), kWhat);
  }
  void normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more,
                 NormOutput y) const override {
    cuda_check(kernels::norm_normalise(shape, x, norm, more, y, current_stream()), kWhat);
  }
  void rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm, NormInput result,
                    const NormGradient& d, float* d_gamma, float* d_beta) const override {
    const at::Tensor parts = parts_of(shape);
    cuda_check(kernels::norm_rectify_back(shape, dy, x, norm, result, d, parts.mutable_data_ptr<float>(), d_gamma,
                                          d_beta, current_stream()),
               kWhat);
  }
  void centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x, const NormColumns& norm,
                   const float* d_gamma, const float* d_beta, NormOutput dx) const override {
    cuda_check(kernels::norm_centre_back(shape, given, rectified, x, norm, d_gamma, d_beta, dx, current_stream()),
               kWhat);
  }

 private:
  static constexpr const char* kWhat = "batch normalisation";

  // Freed when its kernels are issued: this stream's work reuses it in order.
  static at::Tensor parts_of(const NormShape& shape) {
    return at::empty({kernels::norm_parts(shape)}, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
  }
};

/// A point in the work of a graph: an event of which each replay makes a new record.
class GraphMark final : public DevicePoint {
 public:
  /// Behind what is recorded on this stream.
  explicit GraphMark(cudaStream_t recorded) {
    cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), kWhat);
    const cudaError_t code = cudaEventRecordWithFlags(event_, recorded, cudaEventRecordExternal);
    if (code != cudaSuccess) cudaEventDestroy(event_);
    cuda_check(code, kWhat);
  }
  ~GraphMark() override { cudaEventDestroy(event_); }
  GraphMark(const GraphMark&) = delete;
  GraphMark& operator=(const GraphMark&) = delete;

  void hold(const c10::Stream& stream) const override {
    cuda_check(cudaStreamWaitEvent(c10::cuda::CUDAStream(stream).stream(), event_, 0), kWhat);
  }

 private:
  static constexpr const char* kWhat = "marking a place in a CUDA graph (cuda_graphs: false trains without)";
  cudaEvent_t event_ = nullptr;
};

/// What all graphs of a device share. Within a pool the allocator keeps the memory of each stream apart, so a graph can
/// reuse an earlier one's memory only if both were recorded on the same stream.
struct GraphMemory {
  c10::DeviceIndex device;
  c10::cuda::MempoolId_t pool;
  c10::cuda::CUDAStream stream;  // from LibTorch's stream pool: the default stream cannot be recorded
  const DeviceGraph* ran_last = nullptr;
};

// Other threads keep using the device while one records (the loader's copies, the reducer's queries), so only the
// recording thread is restricted to calls that can be recorded.
class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(std::shared_ptr<GraphMemory> memory) : memory_(std::move(memory)) {}

  void record(std::function<void()> work) override {
    // A graph needs new memory, and the allocator cannot free what it has cached while one is recorded: do it before.
    give_back_memory();
    const c10::cuda::CUDAStream training = c10::cuda::getCurrentCUDAStream();
    c10::Event before(c10::kCUDA);
    before.record(training.unwrap());
    before.block(memory_->stream.unwrap());
    const c10::cuda::CUDAStreamGuard guard(memory_->stream);
    try {
      graph_.capture_begin(memory_->pool, cudaStreamCaptureModeThreadLocal);
      work();
      graph_.capture_end();
    } catch (...) {
      abandon();
      fail();
    }
  }

  Mark mark() override { return marks_.emplace_back(std::make_shared<GraphMark>(current_stream())); }

  void replay() override {
    memory_->ran_last = this;
    graph_.replay();
  }

  bool overwritten() const override { return memory_->ran_last != nullptr && memory_->ran_last != this; }

  void give_back_memory() override { c10::cuda::CUDACachingAllocator::emptyCache(); }

 private:
  // What went wrong within a recording, as a failure of ours.
  [[noreturn]] static void fail() {
    try {
      throw;
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      const std::string words = error.what_without_backtrace();
      if (tells_of_gpu_memory(words)) throw;
      throw DeviceError("recording a step as a CUDA graph failed: " + words.substr(0, words.find('\n')) +
                        "; cuda_graphs: false trains without graphs");
    }
  }

  // While a recording is open this thread may not wait for the device, as the end of NCCL's communicator does.
  void abandon() const {
    cudaGraph_t unfinished = nullptr;
    cudaStreamEndCapture(memory_->stream.stream(), &unfinished);
    if (unfinished != nullptr) cudaGraphDestroy(unfinished);
    cudaGetLastError();
  }

  std::shared_ptr<GraphMemory> memory_;
  std::vector<std::shared_ptr<const GraphMark>> marks_;  // outlive the graph, which records their events
  at::cuda::CUDAGraph graph_;
};

class CudaModule final : public GpuModule {
 public:
  const FlatMath& math() const override { return math_; }
  const NormMath& norms() const override { return norms_; }
  NcclApi& nccl() override { return *nccl_; }
  std::unique_ptr<DeviceGraph> make_graph() override {
    const c10::DeviceIndex device = c10::cuda::current_device();
    std::shared_ptr<GraphMemory> memory = graphs_.lock();
    if (memory == nullptr || memory->device != device) {
      memory = std::make_shared<GraphMemory>(GraphMemory{
          device, at::cuda::graph_pool_handle(), c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)});
      graphs_ = memory;
    }
    return std::make_unique<CudaGraph>(std::move(memory));
  }

  c10::Device use_device(int number) override {
    cudaError_t code = cudaSetDevice(number);
    if (code == cudaSuccess) code = cudaFree(nullptr);  // creates the context, which fails if the GPU is not available
    if (code == cudaSuccess) return {c10::kCUDA, static_cast<c10::DeviceIndex>(number)};
    const std::string words = cudaGetErrorString(code);
    if (code == cudaErrorMemoryAllocation)
      throw Error(exit_code::kOutOfMemory, "GPU " + std::to_string(number) + " has no memory left (" + words +
                                               "); another program holds it: see nvidia-smi");
    throw ConfigError(
        "GPU " + std::to_string(number) + " cannot be used: " + words +
        (code == cudaErrorDevicesUnavailable
             ? "; another program uses it exclusively (compute mode, in which batch.per_rank: auto cannot try a "
               "batch beside this process): see nvidia-smi"
             : "; does the driver run CUDA " + cuda_version() + "? See dtrain info and nvidia-smi"));
  }

  double memory_peak_mb() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    return static_cast<double>(stats.reserved_bytes[0].peak) / 1e6;  // index 0: all pools together
  }

  double memory_free_mb() const override {
    size_t free = 0;
    size_t all = 0;
    cuda_check(cudaMemGetInfo(&free, &all), "asking for free memory");
    return static_cast<double>(free) / 1e6;
  }

  std::string cuda_version() const override {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

 private:
  CudaMath math_;
  CudaNorms norms_;
  std::weak_ptr<GraphMemory> graphs_;  // owned by its graphs: a pool is not used again once its last graph is gone
  std::unique_ptr<NcclApi> nccl_ = make_real_nccl(c10::kCUDA, current_stream);
};

[[gnu::section(".note.dtrain"), gnu::used]] alignas(4) constexpr auto kStamp = module_stamp(DTRAIN_BUILD_STAMP);

GpuModule& module() {
  // LibTorch looks for its CUDA part only once; if anything had asked before, it would now run without it. Whether
  // there is a GPU is another question, which the driver answers.
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  check(typeid(hooks) != typeid(at::CUDAHooksInterface),
        "nothing asks LibTorch for CUDA before the GPU module is loaded");
  static CudaModule module;
  return module;
}

}  // namespace
}  // namespace dtrain

extern "C" __attribute__((visibility("default")))
const dtrain::GpuModuleEntry dtrain_gpu_module_entry = {DTRAIN_BUILD_STAMP, dtrain::module};
