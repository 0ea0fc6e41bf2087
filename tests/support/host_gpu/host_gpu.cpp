#include "support/host_gpu/host_gpu.hpp"

#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

// The CPU's loops, each a piece of work of the current stream.
class HostGpuMath final : public FlatMath {
 public:
  void add(float* into, const float* from, int64_t numel) const override {
    issue([=] { host_math().add(into, from, numel); });
  }
  void sum(std::span<const int> program, int depth, const std::vector<const float*>& inputs,
           const std::vector<float*>& outputs, int64_t numel) const override {
    issue([steps = std::vector<int>(program.begin(), program.end()), depth, inputs, outputs, numel] {
      host_math().sum(steps, depth, inputs, outputs, numel);
    });
  }
  void update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
              int32_t* not_finite) const override {
    issue([=] { host_math().update(rule, slices, factors, not_finite); });
  }
  void measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums) const override {
    issue([=] { host_math().measure(rule, slices, factors, sums); });
  }
  std::vector<double> sums_of_squares(const float* values, const std::vector<Range>& ranges) const override {
    HostGpuStreams::all().wait(HostGpuStreams::all().current());
    return host_math().sums_of_squares(values, ranges);
  }
  void finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out) const override {
    issue([=] { host_math().finish_pictures(form, pictures, count, out); });
  }
  void finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes,
                    float* out) const override {
    issue([=] { host_math().finish_masks(form, masks, count, classes, out); });
  }

 private:
  static void issue(std::function<void()> work) { HostGpuStreams::all().issue(std::move(work)); }
};

}  // namespace

Device make_host_gpu(uint64_t seed, int64_t most_pause_us) {
  static const HostGpuMath math;
  HostGpuStreams::all().start(seed, most_pause_us);
  register_host_gpu_guard();
  register_host_gpu_memory();
  return {c10::Device(kHostGpu, 0), &math, nullptr};
}

CUstream_st* host_gpu_stream() { return HostGpuStreams::all().stream(HostGpuStreams::all().current()).handle(); }
CUstream_st* host_gpu_default_stream() { return HostGpuStreams::all().stream(0).handle(); }

}  // namespace dtrain::test
