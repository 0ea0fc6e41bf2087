#include "dtrain/train/replica.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>
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
    : network_(std::move(network)), format_(format), device_(device), precision_(precision), options_(optimizer) {
  const at::NoGradGuard no_grad;
  network_->use_norms(device.place.is_cpu() ? nullptr : &device.module->norms());
  for (const NamedTensor& parameter : network_->named_parameters()) {
    if (parameter.tensor.dim() == 4) at::Tensor(parameter.tensor).set_data(parameter.tensor.contiguous(format));
    parameters_.names.push_back(parameter.name);
    parameters_.tensors.push_back(parameter.tensor);
  }
  take_rules();
  const at::TensorOptions flat = parameters_.tensors.front().options().device(device.place);
  parameters_.layout = std::make_unique<FlatLayout>(parameters_in_layout());
  parameters_.flat = flatten(*parameters_.layout, parameters_in_layout(), flat);
  lay_out_buffers(flat);
  optimizer_ = std::make_unique<Optimizer>(options_, parameters_.flat.slice(0, 0, trained_numel()), device);
  give_rules();
}

// What the optimizer does with each parameter, and the first layout: trained ones in reverse order, then frozen ones.
void Replica::take_rules() {
  std::vector<int64_t> dimensions;
  for (const at::Tensor& parameter : parameters_.tensors) dimensions.push_back(parameter.dim());
  parameters_.rules = parameter_rules(options_, parameters_.names, dimensions);
  const size_t count = parameters_.tensors.size();
  parameters_.place_of.resize(count);
  size_t place = 0;
  for (const bool frozen : {false, true}) {
    for (size_t i = count; i-- > 0;)
      if (parameters_.rules[i].frozen == frozen) parameters_.place_of[i] = place++;
    if (!frozen) parameters_.trained = place;
  }
  for (size_t i = 0; i < count; ++i) parameters_.tensors[i].requires_grad_(!is_frozen(i));
}

// Names of the buffers of norms whose parameters are all frozen; these norms stay in evaluation mode.
std::set<std::string> Replica::frozen_buffers() {
  std::set<std::string> names;
  for (const Module::Named& part : network_->modules()) {
    const auto& own = part.module->own_parameters();
    const bool frozen = !own.empty() && std::none_of(own.begin(), own.end(), [](const NamedTensor& parameter) {
      return parameter.tensor.requires_grad();
    });
    part.module->keep_in_evaluation(frozen);
    for (const NamedTensor& buffer : part.module->own_buffers())
      if (frozen) names.insert(part.name + "." + buffer.name);
  }
  return names;
}

void Replica::lay_out_buffers(const at::TensorOptions& options) {
  const std::set<std::string> frozen = frozen_buffers();
  const std::vector<FileTensor> averaged = averages_of_buffers();
  buffers_.named.clear();
  buffers_.counters.clear();
  std::vector<at::Tensor> tensors;
  size_t moving = 0;
  for (const bool of_frozen : {false, true}) {
    for (const NamedTensor& buffer : network_->named_buffers()) {
      if (frozen.contains(buffer.name) != of_frozen) continue;
      if (!buffer.tensor.is_floating_point()) {
        buffers_.counters.push_back(buffer);
        continue;
      }
      buffers_.named.push_back(buffer);
      tensors.push_back(buffer.tensor);
    }
    if (of_frozen) continue;
    moving = tensors.size();
    buffers_.moving_counters = buffers_.counters.size();
  }
  buffers_.layout = std::make_unique<FlatLayout>(tensors);
  buffers_.moving_numel = moving < tensors.size() ? buffers_.layout->range(moving).begin : buffers_.layout->numel();
  buffers_.flat = flatten(*buffers_.layout, tensors, options);
  if (!has_average()) return;
  average_.buffers = at::zeros_like(buffers_.flat);
  for (size_t i = 0; i < buffers_.named.size(); ++i)
    for (const FileTensor& before : averaged)
      if (before.name == buffers_.named[i].name) buffers_.layout->view(average_.buffers, i).copy_(before.tensor);
}

void Replica::keep_average(const EmaOptions& options) {
  average_ = {.options = options,
              .parameters = parameters_.flat.clone(),
              .buffers = buffers_.flat.clone(),
              .not_finite = at::zeros({1}, buffers_.flat.options().dtype(at::kInt))};
}

void Replica::move_average() {
  const auto share = static_cast<float>(1 - ema_decay(average_.options, optimizer_->updates()));
  const auto follow = [&](const at::Tensor& average, const at::Tensor& values) {
    if (values.numel() == 0) return;
    device_.math->update(UpdateRule::average,
                         {values.numel(), average.mutable_data_ptr<float>(), values.const_data_ptr<float>()},
                         {.rate = share}, average_.not_finite.mutable_data_ptr<int32_t>());
  };
  follow(average_.parameters, parameters_.flat);
  follow(average_.buffers, buffers_.flat);
}

void Replica::swap_average() {
  const at::NoGradGuard no_grad;
  const auto swap = [](at::Tensor values, at::Tensor average) {
    const at::Tensor kept = values.clone();
    values.copy_(average);
    average.copy_(kept);
  };
  swap(parameters_.flat, average_.parameters);
  swap(buffers_.flat, average_.buffers);
}

void Replica::give_rules() {
  std::vector<Optimizer::Part> parts(parameters_.trained);
  for (size_t i = 0; i < parameters_.rules.size(); ++i) {
    if (is_frozen(i)) continue;
    const ParameterRule& rule = parameters_.rules[i];
    parts[place_of(i)] = {parameters_.layout->range(place_of(i)), rule.rate, rule.weight_decay,
                          rule.frozen ? parameters_.thawed_at : 0, parameters_.tensors[i].dim() > 1};
  }
  optimizer_->set_parts(parts);
}

void Replica::thaw(int64_t updates) {
  const at::NoGradGuard no_grad;
  parameters_.trained = parameters_.tensors.size();
  parameters_.thawed_at = updates;
  for (const at::Tensor& parameter : parameters_.tensors) parameter.requires_grad_(true);
  const int64_t steps = buffers_.counters.empty() ? 0 : buffers_.counters.front().tensor.item<int64_t>();
  lay_out_buffers(buffers_.flat.options());
  set_steps_tracked(steps);
  network_->train(network_->is_training());
  auto grown = std::make_unique<Optimizer>(options_, parameters_.flat, device_);
  for (size_t i = 0; i < grown->state().size(); ++i) {
    const at::Tensor& before = optimizer_->state()[i].values;
    at::Tensor(grown->state()[i].values).slice(0, 0, before.numel()).copy_(before);
  }
  grown->set_updates(optimizer_->updates());
  optimizer_ = std::move(grown);
  give_rules();
}

int64_t Replica::trained_numel() const {
  return parameters_.trained < parameters_.tensors.size() ? parameters_.layout->range(parameters_.trained).begin
                                                          : parameters_.layout->numel();
}

at::Tensor Replica::forward(const at::Tensor& images) {
  const AutocastScope scope(device_.place.type(), precision_);
  return network_->forward(images).to(at::kFloat);
}

std::vector<at::Tensor> Replica::forward_all(const at::Tensor& images) {
  const AutocastScope scope(device_.place.type(), precision_);
  std::vector<at::Tensor> logits = network_->forward_all(images);
  for (at::Tensor& one : logits) one = one.to(at::kFloat);
  return logits;
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

std::vector<at::Tensor> Replica::trained_parameters() const {
  std::vector<at::Tensor> ordered = parameters_in_layout();
  ordered.resize(parameters_.trained);
  return ordered;
}

void Replica::reorder(const std::vector<size_t>& order) {
  check(order.size() == parameters_.trained, "the trained parameters are laid out again, and all of them");
  const at::NoGradGuard no_grad;
  const FlatLayout old = *parameters_.layout;
  std::vector<size_t> new_place(parameters_.tensors.size());
  std::iota(new_place.begin(), new_place.end(), 0);
  for (size_t k = 0; k < order.size(); ++k) new_place[order[k]] = k;
  for (size_t& place : parameters_.place_of) place = new_place[place];
  parameters_.layout = std::make_unique<FlatLayout>(parameters_in_layout());
  // In place, so that references to the flat tensors stay valid.
  const auto move = [&](at::Tensor flat) {
    const at::Tensor before = flat.clone();
    flat.zero_();
    for (size_t place = 0; place < order.size(); ++place)
      parameters_.layout->view(flat, new_place[place]).copy_(old.view(before, place));
  };
  for (const Optimizer::State& state : optimizer_->state()) move(state.values);
  if (has_average()) move(average_.parameters.slice(0, 0, trained_numel()));
  move(parameters_.flat.slice(0, 0, trained_numel()));
  for (size_t i = 0; i < parameters_.tensors.size(); ++i)
    parameters_.tensors[i].set_data(parameters_.layout->view(parameters_.flat, parameters_.place_of[i]));
  give_rules();
}

int64_t Replica::steps_tracked() const {
  return buffers_.moving_counters == 0 ? 0 : buffers_.counters.front().tensor.item<int64_t>();
}

void Replica::set_steps_tracked(int64_t steps) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.moving_counters; ++i) at::Tensor(buffers_.counters[i].tensor).fill_(steps);
}

void Replica::broadcast_from(Communicator& comm, int root) {
  broadcast(comm, parameters_.flat, root);
  if (buffers_.flat.numel() > 0) broadcast(comm, buffers_.flat, root);
  for (const Optimizer::State& state : optimizer_->state()) {
    at::Tensor values = state.values;
    broadcast(comm, values, root);
  }
  if (has_average()) broadcast(comm, average_.parameters, root);
  if (has_average() && average_.buffers.numel() > 0) broadcast(comm, average_.buffers, root);
  std::vector<int64_t> own = {optimizer_->updates(), std::bit_cast<int64_t>(loss_scale_.scale), loss_scale_.good_steps};
  for (const NamedTensor& counter : buffers_.counters) own.push_back(counter.tensor.item<int64_t>());
  at::Tensor counts = at::tensor(own, at::kLong);
  broadcast(comm, counts, root);
  const int64_t* theirs = counts.const_data_ptr<int64_t>();
  optimizer_->set_updates(theirs[0]);
  loss_scale_ = {std::bit_cast<double>(theirs[1]), theirs[2]};
  const at::NoGradGuard no_grad;
  for (const NamedTensor& counter : buffers_.counters) at::Tensor(counter.tensor).fill_(*(theirs++ + 3));
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
      if (!is_frozen(i))
        tensors.push_back({"optimizer." + parameters_.names[i] + "." + state.name,
                           parameters_.layout->view(state.values, place_of(i))});
  return tensors;
}

std::vector<FileTensor> Replica::averages_of_buffers() const {
  std::vector<FileTensor> tensors;
  for (size_t i = 0; has_average() && i < buffers_.named.size(); ++i)
    tensors.push_back({buffers_.named[i].name, buffers_.layout->view(average_.buffers, i)});
  return tensors;
}

std::vector<FileTensor> Replica::average_tensors() const {
  std::vector<FileTensor> tensors;
  for (size_t i = 0; has_average() && i < parameters_.tensors.size(); ++i)
    tensors.push_back({parameters_.names[i], parameters_.layout->view(average_.parameters, place_of(i))});
  for (FileTensor& tensor : averages_of_buffers()) tensors.push_back(std::move(tensor));
  for (FileTensor& tensor : tensors) tensor.name = "ema." + tensor.name;
  return tensors;
}

std::vector<FileTensor> Replica::checkpoint_tensors() const {
  std::vector<FileTensor> tensors = model_tensors("model.");
  for (FileTensor& tensor : optimizer_tensors()) tensors.push_back(std::move(tensor));
  for (FileTensor& tensor : average_tensors()) tensors.push_back(std::move(tensor));
  return tensors;
}

// Hashes the floats of a range; `flat` is in host memory.
static uint32_t hash_range(const at::Tensor& flat, Range range) {
  return crc32c(std::as_bytes(
      std::span(flat.const_data_ptr<float>() + range.begin, static_cast<size_t>(range.end - range.begin))));
}

static uint32_t hash_count(int64_t count) { return crc32c(std::as_bytes(std::span(&count, 1))); }

Replica::SeenBuffers Replica::see_buffers() const {
  SeenBuffers seen{LateCopy(device_.place.is_cpu() ? buffers_.flat.clone() : buffers_.flat), {}};
  for (const NamedTensor& counter : buffers_.counters)
    seen.others.push_back(hash_count(*counter.tensor.const_data_ptr<int64_t>()));
  seen.others.push_back(hash_count(optimizer_->updates()));
  const std::array<int64_t, 2> scale{std::bit_cast<int64_t>(loss_scale_.scale), loss_scale_.good_steps};
  seen.others.push_back(crc32c(std::as_bytes(std::span(scale))));
  return seen;
}

std::vector<uint32_t> Replica::hash_buffers(const SeenBuffers& seen) const {
  std::vector<uint32_t> hashes;
  const at::Tensor& host = seen.statistics.wait();
  for (size_t i = 0; i < buffers_.named.size(); ++i) hashes.push_back(hash_range(host, buffers_.layout->range(i)));
  hashes.insert(hashes.end(), seen.others.begin(), seen.others.end());
  return hashes;
}

std::vector<std::string> Replica::buffer_names() const {
  std::vector<std::string> names;
  for (const NamedTensor& buffer : buffers_.named) names.push_back("model." + buffer.name);
  for (const NamedTensor& counter : buffers_.counters) names.push_back("model." + counter.name);
  names.push_back("optimizer.updates");
  names.push_back("loss_scale");
  return names;
}

std::vector<uint32_t> Replica::hash_weights() const {
  std::vector<uint32_t> hashes;
  const auto hash_parts = [&](const at::Tensor& flat, size_t places) {
    const at::Tensor host = flat.cpu();
    for (const size_t place : parameters_.place_of)
      if (place < places) hashes.push_back(hash_range(host, parameters_.layout->range(place)));
  };
  hash_parts(parameters_.flat, parameters_.place_of.size());
  for (const Optimizer::State& state : optimizer_->state()) hash_parts(state.values, parameters_.trained);
  if (!has_average()) return hashes;
  hash_parts(average_.parameters, parameters_.place_of.size());
  const at::Tensor host = average_.buffers.cpu();
  for (size_t i = 0; i < buffers_.named.size(); ++i) hashes.push_back(hash_range(host, buffers_.layout->range(i)));
  return hashes;
}

std::vector<std::string> Replica::weight_names() const {
  std::vector<std::string> names;
  for (const std::string& name : parameters_.names) names.push_back("model." + name);
  for (const FileTensor& state : optimizer_tensors()) names.push_back(state.name);
  for (const FileTensor& average : average_tensors()) names.push_back(average.name);
  return names;
}

std::string Replica::sha256() const { return result_sha256(model_tensors("")); }

}  // namespace dtrain
