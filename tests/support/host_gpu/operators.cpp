// LibTorch's operators on the host's GPU. Copies and fills are work of the current stream; all others are computed by
// the CPU as soon as the stream has done what comes before them, and only their results are written by the stream.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <array>
#include <set>
#include <vector>

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

// The same memory as a tensor of the CPU, by address alone: as a kernel sees it, it does not keep the memory.
struct Bare {
  explicit Bare(const at::Tensor& tensor)
      : data(const_cast<void*>(tensor.const_data_ptr())),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        type(tensor.scalar_type()) {}
  at::Tensor on_host() const { return at::from_blob(data, sizes, strides, type); }

  void* data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType type;
};

// From the tensor's first byte to its last; nothing for one of the CPU.
std::vector<Access> access(const at::Tensor& tensor, bool writes) {
  if (tensor.is_cpu() || tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {{tensor.const_data_ptr(), static_cast<size_t>(last + 1) * tensor.element_size(), writes}};
}

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

// What an operator that the CPU computes reads or returns.
void copy_within_operator(const at::Tensor& from, const at::Tensor& to) {
  HostGpuStreams& streams = HostGpuStreams::all();
  const std::string& name = *OperatorScope::current();
  if (to.is_cpu()) {
    WorkOrder::all().issue(streams.current(), name, access(from, false));
    streams.catch_up();
    to.copy_(Bare(from).on_host());
  } else if (from.is_cpu()) {
    streams.issue(name, access(to, true), [out = Bare(to), in = from.clone()] { out.on_host().copy_(in); });
  } else {
    std::vector<Access> both = access(from, false);
    for (const Access& write : access(to, true)) both.push_back(write);
    streams.issue(name, both, [out = Bare(to), in = Bare(from)] { out.on_host().copy_(in.on_host()); });
  }
}

// Between host and device: at once for the host unless it wants no wait. Then memory that is not pinned is copied
// before, as CUDA does, and pinned memory is read or written when the stream comes to it.
void copy_with_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  HostGpuStreams& streams = HostGpuStreams::all();
  const bool to_host = to.is_cpu();
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
    const OperatorScope scope("copy");
    copy_within_operator(source, to);
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

void record_stream(at::Tensor& tensor, at::Stream stream) {
  lend_host_gpu_memory(tensor.storage().data_ptr(), stream.id());
}

// The fallback does not reach convolutions, for which LibTorch has a kernel that refuses all other devices.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const OperatorScope scope("convolution");
  const std::optional<at::Tensor> offset = bias && bias->defined() ? std::optional(bias->cpu()) : std::nullopt;
  return at::convolution_symint(x.cpu(), weight.cpu(), offset, stride, padding, dilation, transposed, output_padding,
                                groups)
      .to(x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> wanted) {
  const OperatorScope scope("convolution_backward");
  const std::array<c10::SymInt, 1> bias_size{dy.size(1)};
  const auto [dx, dw, db] =
      at::convolution_backward_symint(dy.cpu(), x.cpu(), weight.cpu(), c10::SymIntArrayRef(bias_size), stride, padding,
                                      dilation, transposed, output_padding, groups, wanted);
  const auto on_device = [&](const at::Tensor& result) { return result.defined() ? result.to(x.device()) : result; };
  return {on_device(dx), on_device(dw), on_device(db)};
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
  {
    const OperatorScope scope(op.schema().name());
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  }
  if (waits(op.schema().name())) HostGpuStreams::all().wait(HostGpuStreams::all().current());
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
  operators->impl("record_stream", TORCH_FN(record_stream));
  operators->impl("convolution_overrideable", TORCH_FN(convolution));
  operators->impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  operators->impl("native_batch_norm", TORCH_FN(batch_norm));
  static auto* all_others =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all_others->fallback(torch::CppFunction::makeFromBoxedFunction<&by_cpu>());
}

}  // namespace dtrain::test
