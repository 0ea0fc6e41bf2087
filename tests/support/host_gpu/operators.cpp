// LibTorch's operators on the host's GPU. Copies and fills are work of the current stream; all others are computed by
// the CPU as soon as the stream has done what comes before them, and only their results are written by the stream.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/host_gpu/recorded_call.hpp"
#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

// While it lives, the calling thread computes an operator of this name for the current stream.
class OperatorScope {
 public:
  explicit OperatorScope(std::string name) : name_(std::move(name)), outer_(std::exchange(current_, &name_)) {}
  ~OperatorScope() { current_ = outer_; }
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

  static const std::string* current() { return current_; }

 private:
  static thread_local const std::string* current_;
  std::string name_;
  const std::string* outer_;
};
thread_local const std::string* OperatorScope::current_ = nullptr;

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &host_gpu_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat),
                                   format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           &host_gpu_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

void issue_copy(const std::string& name, const at::Tensor& from, const at::Tensor& to) {
  std::vector<Access> both = access(from, false);
  for (const Access& write : access(to, true)) both.push_back(write);
  HostGpuStreams& streams = HostGpuStreams::all();
  if (OperatorScope::current() == nullptr) ++streams.costs.launches;
  streams.issue(name, both, [out = Bare(to), in = Bare(from)] { out.on_host().copy_(in.on_host()); });
}

// What an operator that the CPU computes reads or returns.
void copy_within_operator(const at::Tensor& from, const at::Tensor& to) {
  HostGpuStreams& streams = HostGpuStreams::all();
  const std::string& name = *OperatorScope::current();
  if (Recording* recording = streams.recording(streams.current())) {
    recording->try_out(access(to, true), [&] { Bare(to).on_host().copy_(Bare(from).on_host()); });
  } else if (to.is_cpu()) {
    WorkOrder::all().issue(streams.current(), name, access(from, false));
    streams.catch_up();
    to.copy_(Bare(from).on_host());
  } else if (from.is_cpu()) {
    streams.issue(name, access(to, true), [out = Bare(to), in = from.clone()] { out.on_host().copy_(in); });
  } else {
    issue_copy(name, from, to);
  }
}

// Between host and device: at once for the host unless it wants no wait. Then memory that is not pinned is copied
// before, as CUDA does, and pinned memory is read or written when the stream comes to it.
void copy_with_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  HostGpuStreams& streams = HostGpuStreams::all();
  TORCH_CHECK(streams.recording(streams.current()) == nullptr, "a copy from or to the host while a graph is recorded");
  const bool to_host = to.is_cpu();
  ++streams.costs.copies;
  streams.costs.copy_bytes += static_cast<int64_t>(from.nbytes());
  const void* const host = to_host ? to.const_data_ptr() : from.const_data_ptr();
  const bool late = non_blocking && is_pinned(host);
  const at::Tensor in = late || to_host ? from : from.clone();
  streams.issue(to_host ? "copy to the host" : "copy from the host", to_host ? access(from, false) : access(to, true),
                [out = Bare(to), in = Bare(in), kept = in.is_cpu() && !late ? in : at::Tensor()] {
                  out.on_host().copy_(in.on_host());
                });
  if (late) {
    keep_pinned_until(host, streams.mark(streams.current()));
  } else if (to_host || !non_blocking) {
    streams.wait(streams.current());
  }
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const at::Tensor source = from.sizes() == to.sizes() ? from : from.expand(to.sizes());
  if (OperatorScope::current() != nullptr) {
    copy_within_operator(source, to);
  } else if (to.is_cpu() || source.is_cpu()) {
    copy_with_host(source, to, non_blocking);
  } else {
    issue_copy("copy", source, to);
  }
  return to;
}

// An operator's result where it was asked to put it: in a tensor of no size, if it was to find the size.
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) {
    TORCH_CHECK(to.numel() == 0, "a result on the host's GPU has its size, or none");
    to.unsafeGetTensorImpl()->shallow_copy_from(at::empty_like(from, to.options()).getIntrusivePtr());
  }
  return copy_from(from, to, false);
}

at::Tensor& fill(at::Tensor& tensor, const at::Scalar& value) {
  ++HostGpuStreams::all().costs.launches;
  HostGpuStreams::all().issue("fill", access(tensor, true),
                              [out = Bare(tensor), value] { out.on_host().fill_(value); });
  return tensor;
}

at::Tensor& zero(at::Tensor& tensor) { return fill(tensor, 0); }

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef sizes) {
  return at::native::view(tensor, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  std::optional<int64_t> begin;
  if (offset) begin = offset->expect_int();
  return at::native::as_strided_tensorimpl(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           begin);
}

at::Tensor reshape_alias(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

// For set_data(), which knows CUDA's tensors and the CPU's alone.
bool may_replace_each_other(const at::Tensor&, const at::Tensor&) { return true; }

void record_stream(at::Tensor& tensor, at::Stream stream) {
  lend_host_gpu_memory(tensor.storage().data_ptr(), stream.id());
}

// What `compute` makes of the inputs, which may be undefined, on the CPU.
std::vector<at::Tensor> computed(const std::string& name, const std::vector<at::Tensor>& inputs,
                                 const RecordedCall::Work& compute) {
  ++HostGpuStreams::all().costs.launches;
  const c10::Device device(kHostGpu, 0);
  std::vector<at::Tensor> results;
  {
    const OperatorScope scope(name);
    std::vector<at::Tensor> on_host;
    for (const at::Tensor& input : inputs) on_host.push_back(input.defined() ? input.cpu() : input);
    for (const at::Tensor& result : compute(on_host)) results.push_back(result.defined() ? result.to(device) : result);
  }
  HostGpuStreams& streams = HostGpuStreams::all();
  if (Recording* recording = streams.recording(streams.current())) {
    RecordedCall call(name);
    for (const at::Tensor& input : inputs) call.reads(input);
    for (const at::Tensor& result : results) call.returns(result);
    std::move(call).note(*recording, compute);
  }
  return results;
}

// The fallback does not reach convolutions, for which LibTorch has a kernel that refuses all other devices.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const RecordedCall::Work compute = [stride = stride.vec(), padding = padding.vec(), dilation = dilation.vec(),
                                      transposed, output_padding = output_padding.vec(),
                                      groups](const std::vector<at::Tensor>& in) {
    const std::optional<at::Tensor> offset = in[2].defined() ? std::optional(in[2]) : std::nullopt;
    return std::vector{
        at::convolution_symint(in[0], in[1], offset, stride, padding, dilation, transposed, output_padding, groups)};
  };
  return computed("convolution", {x, weight, bias.value_or(at::Tensor())}, compute).front();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> wanted) {
  const RecordedCall::Work compute = [stride = stride.vec(), padding = padding.vec(), dilation = dilation.vec(),
                                      transposed, output_padding = output_padding.vec(), groups,
                                      wanted](const std::vector<at::Tensor>& in) {
    const std::array<c10::SymInt, 1> bias_size{in[0].size(1)};
    const auto [dx, dw, db] =
        at::convolution_backward_symint(in[0], in[1], in[2], c10::SymIntArrayRef(bias_size), stride, padding, dilation,
                                        transposed, output_padding, groups, wanted);
    return std::vector{dx, dw, db};
  };
  const std::vector<at::Tensor> results = computed("convolution_backward", {dy, x, weight}, compute);
  return {results[0], results[1], results[2]};
}

// The schema of native_batch_norm does not say that running statistics change, so the fallback would lose that.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                                          const std::optional<at::Tensor>& bias,
                                                          const std::optional<at::Tensor>& mean,
                                                          const std::optional<at::Tensor>& variance, bool training,
                                                          double momentum, double epsilon) {
  TORCH_CHECK(mean && variance, "on the host's GPU a norm has running statistics");
  at::Tensor moving_mean = *mean, moving_variance = *variance;
  return at::_native_batch_norm_legit(x, weight, bias, moving_mean, moving_variance, training, momentum, epsilon);
}

// Operators whose result the host needs, so that it waits on a GPU too.
bool waits(const std::string& name) {
  static const std::set<std::string> all{"aten::_local_scalar_dense", "aten::nonzero", "aten::equal",
                                         "aten::masked_select"};
  return all.contains(name);
}

void by_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string& name = op.schema().name();
  HostGpuStreams& streams = HostGpuStreams::all();
  Recording* const recording = streams.recording(streams.current());
  TORCH_CHECK(recording == nullptr || !waits(name), name, " waits for the device while a graph is recorded");
  const torch::jit::Stack arguments =
      recording == nullptr ? torch::jit::Stack() : torch::jit::last(*stack, op.schema().arguments().size()).vec();
  ++(waits(name) ? streams.costs.copies : streams.costs.launches);
  {
    const OperatorScope scope(name);
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  }
  if (recording != nullptr) note_call(*recording, op, arguments, *stack);
  if (waits(name)) streams.wait(streams.current());
}

}  // namespace

void register_host_gpu_operators() {
  static auto* operators =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  operators->impl("empty.memory_format", TORCH_FN(empty));
  operators->impl("empty_strided", TORCH_FN(empty_strided));
  operators->impl("_copy_from", TORCH_FN(copy_from));
  operators->impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  operators->impl("fill_.Scalar", TORCH_FN(fill));
  operators->impl("zero_", TORCH_FN(zero));
  operators->impl("view", TORCH_FN(view));
  operators->impl("as_strided", TORCH_FN(as_strided));
  operators->impl("_reshape_alias", TORCH_FN(reshape_alias));
  operators->impl("_has_compatible_shallow_copy_type", TORCH_FN(may_replace_each_other));
  operators->impl("record_stream", TORCH_FN(record_stream));
  operators->impl("convolution_overrideable", TORCH_FN(convolution));
  operators->impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  operators->impl("native_batch_norm", TORCH_FN(batch_norm));
  static auto* all_others =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all_others->fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
}

}  // namespace dtrain::test
