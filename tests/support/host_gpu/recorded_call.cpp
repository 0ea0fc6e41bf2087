#include "support/host_gpu/recorded_call.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <utility>

namespace dtrain::test {

Bare::Bare(const at::Tensor& tensor)
    : data(const_cast<void*>(tensor.const_data_ptr())),
      sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()),
      type(tensor.scalar_type()) {}

at::Tensor Bare::on_host() const { return at::from_blob(data, sizes, strides, type); }

std::vector<Access> access(const at::Tensor& tensor, bool writes) {
  if (tensor.is_cpu() || tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {{tensor.const_data_ptr(), static_cast<size_t>(last + 1) * tensor.element_size(), writes}};
}

size_t RecordedCall::reads(const at::Tensor& tensor, bool changes) {
  const bool of_device = tensor.defined() && !tensor.is_cpu();
  given_.push_back(
      {of_device ? std::optional<Bare>(tensor) : std::nullopt, of_device ? at::Tensor() : tensor, changes});
  if (of_device) touch(tensor, changes);
  return given_.size() - 1;
}

void RecordedCall::returns(const at::Tensor& tensor) {
  results_.push_back(tensor.defined() && !tensor.is_cpu() ? std::optional<Bare>(tensor) : std::nullopt);
  if (results_.back()) touch(tensor, true);
}

void RecordedCall::note(Recording& recording, Work work) && {
  recording.note({name_, accesses_, [given = std::move(given_), results = std::move(results_), work = std::move(work)] {
                    run(given, results, work);
                  }});
}

void RecordedCall::touch(const at::Tensor& tensor, bool writes) {
  for (const Access& one : access(tensor, writes)) accesses_.push_back(one);
}

void RecordedCall::run(const std::vector<Given>& given, const std::vector<std::optional<Bare>>& results,
                       const Work& work) {
  at::init_num_threads();  // of this thread, which is the stream's
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> on_host;
  for (const Given& one : given) on_host.push_back(one.of_device ? one.of_device->on_host().clone() : one.of_host);
  const std::vector<at::Tensor> found = work(on_host);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].changes) given[i].of_device->on_host().copy_(on_host[i]);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) results[i]->on_host().copy_(found[i]);
}

namespace {

// An argument for the operator's call on the CPU, out of the tensors that RecordedCall gives it.
using Argument = std::function<c10::IValue(const std::vector<at::Tensor>& on_host)>;

Argument argument_of(RecordedCall& call, const c10::IValue& value, bool changes) {
  if (value.isTensor()) {
    const size_t at = call.reads(value.toTensor(), changes);
    return [at](const std::vector<at::Tensor>& on_host) { return c10::IValue(on_host[at]); };
  }
  if (value.isTensorList()) {
    std::vector<size_t> all;
    for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(call.reads(tensor, changes));
    return [all](const std::vector<at::Tensor>& on_host) {
      c10::List<at::Tensor> list;
      for (const size_t at : all) list.push_back(on_host[at]);
      return c10::IValue(list);
    };
  }
  if (value.isOptionalTensorList()) {
    std::vector<size_t> all;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      all.push_back(call.reads(tensor.value_or(at::Tensor())));
    return [all](const std::vector<at::Tensor>& on_host) {
      c10::List<std::optional<at::Tensor>> list;
      for (const size_t at : all) list.push_back(on_host[at].defined() ? std::optional(on_host[at]) : std::nullopt);
      return c10::IValue(list);
    };
  }
  if (value.isDevice()) return [](const std::vector<at::Tensor>&) { return c10::IValue(c10::Device(c10::kCPU)); };
  return [value](const std::vector<at::Tensor>&) { return value; };
}

bool changes_in_place(const c10::Argument& declared) {
  return declared.alias_info() != nullptr && declared.alias_info()->isWrite();
}

}  // namespace

void note_call(Recording& recording, const c10::OperatorHandle& op, const torch::jit::Stack& arguments,
               const torch::jit::Stack& stack) {
  RecordedCall call(op.schema().name());
  std::vector<Argument> again;
  for (size_t i = 0; i < arguments.size(); ++i)
    again.push_back(argument_of(call, arguments[i], changes_in_place(op.schema().arguments()[i])));
  const auto& declared = op.schema().returns();
  for (size_t i = 0; i < declared.size(); ++i) {
    const c10::IValue& result = torch::jit::peek(stack, i, declared.size());
    if (changes_in_place(declared[i])) continue;
    TORCH_CHECK(result.isTensor(), op.schema().name(), " returns lists, which no graph of the host's GPU can have yet");
    call.returns(result.toTensor());
  }
  std::move(call).note(recording, [op, again](const std::vector<at::Tensor>& on_host) {
    torch::jit::Stack own;
    for (const Argument& argument : again) own.push_back(argument(on_host));
    op.callBoxed(&own);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < own.size(); ++i)
      if (!changes_in_place(op.schema().returns()[i])) results.push_back(own[i].toTensor());
    return results;
  });
}

}  // namespace dtrain::test
