#include "dtrain/train/replica.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

// Moves tensors into one flat buffer; afterwards each is a view of its place there.
static at::Tensor flatten(const FlatLayout& layout, const std::vector<at::Tensor>& tensors,
                          const at::TensorOptions& options) {
  const at::Tensor flat = at::zeros({layout.numel()}, options.requires_grad(false));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor view = layout.view(flat, i);
    view.copy_(tensors[i]);
    at::Tensor(tensors[i]).set_data(view);
  }
  return flat;
}

Replica::Replica(std::shared_ptr<Network> network, at::MemoryFormat format, const OptimizerOptions& optimizer)
    : network_(std::move(network)), format_(format) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : parameters_of(*network_)) {
    if (parameter.tensor.dim() == 4) at::Tensor(parameter.tensor).set_data(parameter.tensor.contiguous(format));
    parameter_names_.push_back(parameter.name);
    parameters_.push_back(parameter.tensor);
  }
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : buffers_of(*network_))
    (buffer.tensor.is_floating_point() ? buffers : counters_).push_back(buffer.tensor);
  const std::vector<at::Tensor> reversed(parameters_.rbegin(), parameters_.rend());
  layout_ = std::make_unique<FlatLayout>(reversed);
  flat_parameters_ = flatten(*layout_, reversed, parameters_.front().options());
  flat_buffers_ = flatten(FlatLayout(buffers), buffers, parameters_.front().options());
  optimizer_ = std::make_unique<Optimizer>(optimizer, flat_parameters_);
}

int64_t Replica::steps_tracked() const { return counters_.empty() ? 0 : counters_.front().item<int64_t>(); }

void Replica::set_steps_tracked(int64_t steps) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& counter : counters_) counter.fill_(steps);
}

void Replica::broadcast_from(Communicator& comm, int root) {
  broadcast(comm, flat_parameters_, root);
  if (flat_buffers_.numel() > 0) broadcast(comm, flat_buffers_, root);
  for (const Optimizer::State& state : optimizer_->state()) {
    at::Tensor values = state.values;
    broadcast(comm, values, root);
  }
  at::Tensor counts = at::tensor({steps_tracked(), optimizer_->updates()}, at::kLong);
  broadcast(comm, counts, root);
  set_steps_tracked(counts[0].item<int64_t>());
  optimizer_->set_updates(counts[1].item<int64_t>());
}

std::vector<FileTensor> Replica::model_tensors(const std::string& prefix) const {
  std::vector<FileTensor> tensors;
  for (const NamedTensor& parameter : parameters_of(*network_))
    tensors.push_back({prefix + parameter.name, parameter.tensor});
  for (const NamedTensor& buffer : buffers_of(*network_)) tensors.push_back({prefix + buffer.name, buffer.tensor});
  return tensors;
}

std::vector<FileTensor> Replica::optimizer_tensors() const {
  std::vector<FileTensor> tensors;
  for (const Optimizer::State& state : optimizer_->state())
    for (size_t i = 0; i < parameters_.size(); ++i)
      tensors.push_back(
          {"optimizer." + parameter_names_[i] + "." + state.name, layout_->view(state.values, place_of(i))});
  return tensors;
}

std::string Replica::sha256() const { return result_sha256(model_tensors("")); }

}  // namespace dtrain
