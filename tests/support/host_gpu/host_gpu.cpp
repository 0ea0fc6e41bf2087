#include "support/host_gpu/host_gpu.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/device/gpu_module.hpp"
#include "support/host_gpu/graphs.hpp"
#include "support/host_gpu/streams.hpp"
#include "support/host_norms.hpp"
#include "support/nccl/forwarding_nccl.hpp"

namespace dtrain::test {
namespace {

Access reads(const float* data, int64_t numel) { return {data, static_cast<size_t>(numel) * sizeof *data, false}; }
Access writes(const float* data, int64_t numel) { return {data, static_cast<size_t>(numel) * sizeof *data, true}; }

std::vector<Access> accesses(const UpdateSlices& slices) {
  std::vector<Access> all{writes(slices.weights, slices.count), reads(slices.gradients, slices.count)};
  for (const float* state : {slices.first, slices.second})
    if (state != nullptr) all.push_back(writes(state, slices.count));
  if (slices.sums != nullptr) all.push_back({slices.sums, 2 * sizeof *slices.sums, false});
  return all;
}

// What the walk reads of a picture, from its first pixel to its last.
Access pixels_of(const PictureForm& form, const RawPicture& picture) {
  const int64_t down = (form.height - 1) * picture.walk.down, right = (form.width - 1) * picture.walk.right;
  const int64_t first = picture.walk.start + std::min<int64_t>(down, 0) + std::min<int64_t>(right, 0);
  const int64_t last = picture.walk.start + std::max<int64_t>(down, 0) + std::max<int64_t>(right, 0);
  const int64_t bytes = picture.channels * (picture.bytes != 0 ? 1 : static_cast<int64_t>(sizeof(float)));
  return {static_cast<const char*>(picture.pixels) + first * bytes, static_cast<size_t>((last - first + 1) * bytes),
          false};
}

// The CPU's loops, each a piece of work of the current stream.
class HostGpuMath final : public FlatMath {
 public:
  void add(float* into, const float* from, int64_t numel) const override {
    issue("add", {writes(into, numel), reads(from, numel)}, [=] { host_math().add(into, from, numel); });
  }
  void sum(std::span<const int> program, int depth, const std::vector<const float*>& inputs,
           const std::vector<float*>& outputs, int64_t numel) const override {
    std::vector<Access> touched;
    for (const float* input : inputs) touched.push_back(reads(input, numel));
    for (const float* output : outputs) touched.push_back(writes(output, numel));
    issue("sum", touched, [steps = std::vector<int>(program.begin(), program.end()), depth, inputs, outputs, numel] {
      host_math().sum(steps, depth, inputs, outputs, numel);
    });
  }
  void update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
              int32_t* not_finite) const override {
    std::vector<Access> touched = accesses(slices);
    touched.push_back({not_finite, sizeof *not_finite, true});
    issue("update", touched, [=] { host_math().update(rule, slices, factors, not_finite); });
  }
  void measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums) const override {
    std::vector<Access> touched = accesses(slices);
    touched.push_back({sums, kMeasureRoom * sizeof *sums, true});
    issue("measure", touched, [=] { host_math().measure(rule, slices, factors, sums); });
  }
  std::vector<double> sums_of_squares(const float* values, const std::vector<Range>& ranges) const override {
    std::vector<Access> touched;
    for (const Range& range : ranges) touched.push_back(reads(values + range.begin, range.size()));
    issue("sums of squares", touched, [] {});
    HostGpuStreams::all().wait(HostGpuStreams::all().current());
    return host_math().sums_of_squares(values, ranges);
  }
  void finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out) const override {
    const int64_t numel = count * form.height * form.width * form.channels;
    issue("finish pictures", of_pictures(form, pictures, count, writes(out, numel)),
          [=] { host_math().finish_pictures(form, pictures, count, out); });
  }
  void finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes,
                    float* out) const override {
    const int64_t numel = count * form.height * form.width * classes;
    issue("finish masks", of_pictures(form, masks, count, writes(out, numel)),
          [=] { host_math().finish_masks(form, masks, count, classes, out); });
  }

 private:
  static void issue(const std::string& what, const std::vector<Access>& touched, std::function<void()> work) {
    ++HostGpuStreams::all().costs.launches;
    HostGpuStreams::all().issue(what, touched, std::move(work));
  }

  // The table lies in the device's memory: it can be read here once it has been copied.
  static std::vector<Access> of_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count,
                                         const Access& result) {
    std::vector<Access> touched{result, {pictures, static_cast<size_t>(count) * sizeof *pictures, false}};
    HostGpuStreams::all().catch_up();
    for (int64_t i = 0; i < count; ++i) touched.push_back(pixels_of(form, pictures[i]));
    return touched;
  }
};

Access reads(const NormShape& shape, NormInput rows) {
  const size_t bytes = shape.value == NormValue::float32 ? 4 : 2;
  if (rows.data == nullptr) return {};
  return {rows.data, static_cast<size_t>((shape.rows - 1) * rows.stride + shape.columns) * bytes, false};
}
Access writes(const NormShape& shape, NormOutput rows) {
  Access all = reads(shape, NormInput{rows.data, rows.stride});
  all.writes = true;
  return all;
}

// The tests' loops, likewise.
class HostGpuNorms final : public NormMath {
 public:
  void statistics(const NormShape& shape, NormInput x, float* mean, float* variance,
                  const NormRunning& running) const override {
    issue("norm statistics", 2,
          {reads(shape, x), writes(mean, shape.columns), writes(variance, shape.columns),
           writes(running.mean, shape.columns), writes(running.variance, shape.columns)},
          {}, [=] { host_norms().statistics(shape, x, mean, variance, running); });
  }
  void move_statistics(const NormShape& shape, const float* mean, const float* variance,
                       const NormRunning& running) const override {
    issue("moved statistics", 1,
          {reads(mean, shape.columns), reads(variance, shape.columns), writes(running.mean, shape.columns),
           writes(running.variance, shape.columns)},
          {}, [=] { host_norms().move_statistics(shape, mean, variance, running); });
  }
  void normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more,
                 NormOutput y) const override {
    issue("norm", 1, {reads(shape, x), reads(shape, more), writes(shape, y)}, of(norm, shape),
          [=] { host_norms().normalise(shape, x, norm, more, y); });
  }
  void rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm, NormInput result,
                    const NormGradient& d, float* d_gamma, float* d_beta) const override {
    issue("norm's sums", 2,
          {reads(shape, dy), reads(shape, x), reads(shape, result), writes(shape, d.to), writes(d_gamma, shape.columns),
           writes(d_beta, shape.columns), writes(d.total_gamma, shape.columns), writes(d.total_beta, shape.columns)},
          of(norm, shape), [=] { host_norms().rectify_back(shape, dy, x, norm, result, d, d_gamma, d_beta); });
  }
  void centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x, const NormColumns& norm,
                   const float* d_gamma, const float* d_beta, NormOutput dx) const override {
    issue("norm's gradient", 1,
          {reads(shape, given), reads(shape, x), reads(d_gamma, shape.columns), reads(d_beta, shape.columns),
           writes(shape, dx)},
          of(norm, shape), [=] { host_norms().centre_back(shape, given, rectified, x, norm, d_gamma, d_beta, dx); });
  }

 private:
  static std::vector<Access> of(const NormColumns& norm, const NormShape& shape) {
    std::vector<Access> all;
    for (const float* values : {norm.gamma, norm.beta, norm.mean, norm.variance})
      all.push_back(reads(values, shape.columns));
    return all;
  }
  static void issue(const std::string& what, int launches, std::vector<Access> touched,
                    const std::vector<Access>& columns, std::function<void()> work) {
    touched.insert(touched.end(), columns.begin(), columns.end());
    std::erase_if(touched, [](const Access& one) { return one.data == nullptr; });
    HostGpuStreams::all().costs.launches += launches;
    HostGpuStreams::all().issue(what, touched, std::move(work));
  }
};

// Says what NCCL's work reads and writes on the stream that it is given, where WorkOrder does not see it.
class OrderedNccl final : public ForwardingNccl {
 public:
  OrderedNccl(std::unique_ptr<NcclApi> real, int64_t (*stream)()) : ForwardingNccl(std::move(real)), stream_(stream) {}

  NcclResult init_rank(Handle& comm, int ranks, const Id& id, int rank) override {
    ranks_ = ranks;
    return ForwardingNccl::init_rank(comm, ranks, id, rank);
  }
  NcclResult send(const void* data, size_t bytes, int peer, Handle comm) override {
    note("ncclSend", {data, bytes, false});
    return ForwardingNccl::send(data, bytes, peer, comm);
  }
  NcclResult receive(void* data, size_t bytes, int peer, Handle comm) override {
    note("ncclRecv", {data, bytes, true});
    return ForwardingNccl::receive(data, bytes, peer, comm);
  }
  NcclResult all_reduce(float* data, size_t numel, Handle comm) override {
    note("ncclAllReduce", {data, numel * sizeof *data, true});
    return ForwardingNccl::all_reduce(data, numel, comm);
  }
  NcclResult all_gather(void* all, size_t bytes, int rank, Handle comm) override {
    note("ncclAllGather", {all, bytes * static_cast<size_t>(ranks_), true});
    return ForwardingNccl::all_gather(all, bytes, rank, comm);
  }

 private:
  void note(const std::string& what, const Access& access) { WorkOrder::all().issue(stream_(), what, {access}); }

  int64_t (*stream_)();
  int ranks_ = 0;  // of every communicator
};

class HostGpuModule final : public GpuModule {
 public:
  explicit HostGpuModule(std::unique_ptr<NcclApi> nccl) : nccl_(std::move(nccl)) {}

  const FlatMath& math() const override { return math_; }
  const NormMath& norms() const override { return norms_; }
  NcclApi& nccl() override {
    check(nccl_ != nullptr, "a test that uses NCCL by the host's GPU gives it one");
    return *nccl_;
  }
  std::unique_ptr<DeviceGraph> make_graph() override { return make_host_gpu_graph(); }
  c10::Device use_device(int) override { return {kHostGpu, 0}; }
  double memory_peak_mb() const override { return static_cast<double>(host_gpu_memory_peak()) / 1e6; }
  double memory_free_mb() const override { return static_cast<double>(host_gpu_memory_free()) / 1e6; }
  std::string cuda_version() const override { return ""; }

 private:
  HostGpuMath math_;
  HostGpuNorms norms_;
  std::unique_ptr<NcclApi> nccl_;
};

CUstream_st* handle_of(int64_t stream) { return HostGpuStreams::all().stream(stream).handle(); }
int64_t current_stream() { return HostGpuStreams::all().current(); }
int64_t default_stream() { return 0; }

}  // namespace

Device make_host_gpu(uint64_t seed, int64_t most_pause_us, std::unique_ptr<NcclApi> nccl) {
  static HostGpuModule module(std::move(nccl));
  HostGpuStreams::all().start(seed, most_pause_us);
  register_host_gpu_guard();
  register_host_gpu_memory();
  register_host_gpu_operators();
  register_host_gpu_autocast();
  return {c10::Device(kHostGpu, 0), &module.math(), &module};
}

CUstream_st* host_gpu_stream() { return handle_of(current_stream()); }
CUstream_st* host_gpu_default_stream() { return handle_of(default_stream()); }

std::unique_ptr<NcclApi> ordered_nccl(std::unique_ptr<NcclApi> real, bool on_default_stream) {
  return std::make_unique<OrderedNccl>(std::move(real), on_default_stream ? default_stream : current_stream);
}

}  // namespace dtrain::test
