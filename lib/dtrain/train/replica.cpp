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

// Moves tensors into one flat buffer; afterwards each is a view of its part.
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
    parameters_.names.push_back(parameter.name);
    parameters_.tensors.push_back(parameter.tensor);
  }
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : network_->named_buffers()) {
    if (buffer.tensor.is_floating_point()) {
      buffers.push_back(buffer.tensor);
      buffers_.named.push_back(buffer);
    } else {
      buffers_.counters.push_back(buffer.tensor);
    }
  }
  for (size_t i = 0; i < parameters_.tensors.size(); ++i)
    parameters_.place_of.push_back(parameters_.tensors.size() - 1 - i);
  parameters_.layout = std::make_unique<FlatLayout>(parameters_in_layout());
  const at::TensorOptions flat = parameters_.tensors.front().options().device(device.place);
  parameters_.flat = flatten(*parameters_.layout, parameters_in_layout(), flat);
  buffers_.layout = std::make_unique<FlatLayout>(buffers);
  buffers_.flat = flatten(*buffers_.layout, buffers, flat);
  optimizer_ = std::make_unique<Optimizer>(optimizer, parameters_.flat, device);
  decay_norms_ = optimizer.decay_norms;
  spare_norms();
}

// Biases, and the scales and shifts of normalisation, are the parameters of one dimension.
void Replica::spare_norms() {
  if (decay_norms_) return;
  std::vector<Range> spared;
  const std::vector<at::Tensor> ordered = parameters_in_layout();
  for (size_t place = 0; place < ordered.size(); ++place)
    if (ordered[place].dim() <= 1) spared.push_back(parameters_.layout->range(place));
  optimizer_->spare_from_decay(std::move(spared));
}

at::Tensor Replica::forward(const at::Tensor& images) {
  const AutocastScope scope(device_.place.type(), precision_);
  return network_->forward(images).to(at::kFloat);
}

Network::PooledPass Replica::forward_pooled(const at::Tensor& images) {
  const AutocastScope scope(device_.place.type(), precision_);
  const Network::PooledPass pass = network_->forward_pooled(images);
  return {pass.logits.to(at::kFloat), pass.maps.to(at::kFloat)};
}

std::vector<at::Tensor> Replica::parameters_in_layout() const {
  std::vector<at::Tensor> ordered(parameters_.tensors.size());
  for (size_t i = 0; i < parameters_.tensors.size(); ++i) ordered[parameters_.place_of[i]] = parameters_.tensors[i];
  return ordered;
}

void Replica::reorder(const std::vector<size_t>& order) {
  const at::NoGradGuard no_grad;
  const FlatLayout old = *parameters_.layout;
  std::vector<size_t> new_place(order.size());
  for (size_t k = 0; k < order.size(); ++k) new_place[order[k]] = k;
  for (size_t& place : parameters_.place_of) place = new_place[place];
  parameters_.layout = std::make_unique<FlatLayout>(parameters_in_layout());
  const auto moved = [&](const at::Tensor& flat) {
    at::Tensor result = at::zeros_like(flat);
    for (size_t place = 0; place < order.size(); ++place)
      parameters_.layout->view(result, new_place[place]).copy_(old.view(flat, place));
    return result;
  };
  for (const Optimizer::State& state : optimizer_->state()) at::Tensor(state.values).copy_(moved(state.values));
  // In place, so that references to the flat tensors stay valid.
  parameters_.flat.copy_(moved(parameters_.flat));
  for (size_t i = 0; i < parameters_.tensors.size(); ++i)
    parameters_.tensors[i].set_data(parameters_.layout->view(parameters_.flat, parameters_.place_of[i]));
  spare_norms();
}

int64_t Replica::steps_tracked() const {
  return buffers_.counters.empty() ? 0 : buffers_.counters.front().item<int64_t>();
}

void Replica::set_steps_tracked(int64_t steps) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& counter : buffers_.counters) counter.fill_(steps);
}

void Replica::broadcast_from(Communicator& comm, int root) {
  broadcast(comm, parameters_.flat, root);
  if (buffers_.flat.numel() > 0) broadcast(comm, buffers_.flat, root);
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
    for (size_t i = 0; i < parameters_.tensors.size(); ++i)
      tensors.push_back({"optimizer." + parameters_.names[i] + "." + state.name,
                         parameters_.layout->view(state.values, place_of(i))});
  return tensors;
}

std::vector<FileTensor> Replica::checkpoint_tensors() const {
  std::vector<FileTensor> tensors = model_tensors("model.");
  for (FileTensor& tensor : optimizer_tensors()) tensors.push_back(std::move(tensor));
  return tensors;
}

// Hashes the floats of a range; `flat` is in host memory.
static uint32_t hash_range(const at::Tensor& flat, Range range) {
  return crc32c(std::as_bytes(
      std::span(flat.const_data_ptr<float>() + range.begin, static_cast<size_t>(range.end - range.begin))));
}

static uint32_t hash_count(int64_t count) { return crc32c(std::as_bytes(std::span(&count, 1))); }

std::vector<uint32_t> Replica::hash_buffers() const {
  std::vector<uint32_t> hashes;
  const at::Tensor host = buffers_.flat.cpu();
  for (size_t i = 0; i < buffers_.named.size(); ++i) hashes.push_back(hash_range(host, buffers_.layout->range(i)));
  for (const at::Tensor& counter : buffers_.counters) hashes.push_back(hash_count(*counter.const_data_ptr<int64_t>()));
  hashes.push_back(hash_count(optimizer_->updates()));
  const std::array<int64_t, 2> scale{std::bit_cast<int64_t>(loss_scale_.scale), loss_scale_.good_steps};
  hashes.push_back(crc32c(std::as_bytes(std::span(scale))));
  return hashes;
}

std::vector<std::string> Replica::buffer_names() const {
  std::vector<std::string> names;
  for (const NamedTensor& buffer : buffers_.named) names.push_back("model." + buffer.name);
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
    for (const size_t place : parameters_.place_of)
      hashes.push_back(hash_range(host, parameters_.layout->range(place)));
  };
  hash_parts(parameters_.flat);
  for (const Optimizer::State& state : optimizer_->state()) hash_parts(state.values);
  return hashes;
}

std::vector<std::string> Replica::weight_names() const {
  std::vector<std::string> names;
  for (const std::string& name : parameters_.names) names.push_back("model." + name);
  for (const FileTensor& state : optimizer_tensors()) names.push_back(state.name);
  return names;
}

std::string Replica::sha256() const { return result_sha256(model_tensors("")); }

}  // namespace dtrain
