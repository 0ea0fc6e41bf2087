#include "dtrain/train/replica.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/model/precision.hpp"

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

Replica::Replica(std::shared_ptr<Network> network, at::MemoryFormat format, const OptimizerOptions& optimizer,
                 const Device& device, Precision precision)
    : network_(std::move(network)), format_(format), device_(device), precision_(precision) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : network_->named_parameters()) {
    if (parameter.tensor.dim() == 4) at::Tensor(parameter.tensor).set_data(parameter.tensor.contiguous(format));
    parameter_names_.push_back(parameter.name);
    parameters_.push_back(parameter.tensor);
  }
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : network_->named_buffers()) {
    if (buffer.tensor.is_floating_point()) {
      buffers.push_back(buffer.tensor);
      buffers_.push_back(buffer);
    } else {
      counters_.push_back(buffer.tensor);
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) place_of_.push_back(parameters_.size() - 1 - i);
  layout_ = std::make_unique<FlatLayout>(parameters_in_layout());
  const at::TensorOptions flat = parameters_.front().options().device(device.place);
  flat_parameters_ = flatten(*layout_, parameters_in_layout(), flat);
  buffer_layout_ = std::make_unique<FlatLayout>(buffers);
  flat_buffers_ = flatten(*buffer_layout_, buffers, flat);
  optimizer_ = std::make_unique<Optimizer>(optimizer, flat_parameters_, device);
}

at::Tensor Replica::forward(const at::Tensor& images) {
  const AutocastScope scope(device_.place.type(), precision_);
  return network_->forward(images).to(at::kFloat);
}

std::vector<at::Tensor> Replica::parameters_in_layout() const {
  std::vector<at::Tensor> ordered(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) ordered[place_of_[i]] = parameters_[i];
  return ordered;
}

void Replica::reorder(const std::vector<size_t>& order) {
  const at::NoGradGuard no_grad;
  const FlatLayout old = *layout_;
  std::vector<size_t> new_place(order.size());
  for (size_t k = 0; k < order.size(); ++k) new_place[order[k]] = k;
  for (size_t& place : place_of_) place = new_place[place];
  layout_ = std::make_unique<FlatLayout>(parameters_in_layout());
  const auto moved = [&](const at::Tensor& flat) {
    at::Tensor result = at::zeros_like(flat);
    for (size_t place = 0; place < order.size(); ++place)
      layout_->view(result, new_place[place]).copy_(old.view(flat, place));
    return result;
  };
  for (const Optimizer::State& state : optimizer_->state()) at::Tensor(state.values).copy_(moved(state.values));
  // In place, so that everybody who holds the flat tensors still holds them.
  flat_parameters_.copy_(moved(flat_parameters_));
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].set_data(layout_->view(flat_parameters_, place_of_[i]));
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
  at::Tensor counts = at::tensor(
      {steps_tracked(), optimizer_->updates(), std::bit_cast<int64_t>(loss_scale_.scale), loss_scale_.good_steps},
      at::kLong);
  broadcast(comm, counts, root);
  set_steps_tracked(counts[0].item<int64_t>());
  optimizer_->set_updates(counts[1].item<int64_t>());
  loss_scale_ = {std::bit_cast<double>(counts[2].item<int64_t>()), counts[3].item<int64_t>()};
}

std::vector<FileTensor> Replica::model_tensors(const std::string& prefix) const {
  std::vector<FileTensor> tensors;
  for (const NamedTensor& parameter : network_->named_parameters())
    tensors.push_back({prefix + parameter.name, parameter.tensor});
  for (const NamedTensor& buffer : network_->named_buffers()) tensors.push_back({prefix + buffer.name, buffer.tensor});
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

// The floats of a range as they lie in memory, the host's.
static uint32_t hash_range(const at::Tensor& flat, Range range) {
  return crc32c(std::as_bytes(
      std::span(flat.const_data_ptr<float>() + range.begin, static_cast<size_t>(range.end - range.begin))));
}

static uint32_t hash_count(int64_t count) { return crc32c(std::as_bytes(std::span(&count, 1))); }

std::vector<uint32_t> Replica::hash_buffers() const {
  std::vector<uint32_t> hashes;
  const at::Tensor host = flat_buffers_.cpu();
  for (size_t i = 0; i < buffers_.size(); ++i) hashes.push_back(hash_range(host, buffer_layout_->range(i)));
  for (const at::Tensor& counter : counters_) hashes.push_back(hash_count(*counter.const_data_ptr<int64_t>()));
  hashes.push_back(hash_count(optimizer_->updates()));
  const std::array<int64_t, 2> scale{std::bit_cast<int64_t>(loss_scale_.scale), loss_scale_.good_steps};
  hashes.push_back(crc32c(std::as_bytes(std::span(scale))));
  return hashes;
}

std::vector<std::string> Replica::buffer_names() const {
  std::vector<std::string> names;
  for (const NamedTensor& buffer : buffers_) names.push_back("model." + buffer.name);
  for (const NamedTensor& buffer : network_->named_buffers())
    if (!buffer.tensor.is_floating_point()) names.push_back("model." + buffer.name);
  names.push_back("optimizer.updates");
  names.push_back("loss_scale");
  return names;
}

std::vector<uint32_t> Replica::hash_weights() const {
  std::vector<uint32_t> hashes;
  const auto hash_parts = [&](const at::Tensor& flat) {
    const at::Tensor host = flat.cpu();
    for (const size_t place : place_of_) hashes.push_back(hash_range(host, layout_->range(place)));
  };
  hash_parts(flat_parameters_);
  for (const Optimizer::State& state : optimizer_->state()) hash_parts(state.values);
  return hashes;
}

std::vector<std::string> Replica::weight_names() const {
  std::vector<std::string> names;
  for (const std::string& name : parameter_names_) names.push_back("model." + name);
  for (const FileTensor& state : optimizer_tensors()) names.push_back(state.name);
  return names;
}

std::string Replica::sha256() const { return result_sha256(model_tensors("")); }

}  // namespace dtrain
