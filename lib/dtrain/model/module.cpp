#include "dtrain/model/module.hpp"

#include <algorithm>
#include <stdexcept>

namespace dtrain {

std::vector<Module::Named> Module::modules() const {
  std::vector<Named> all;
  for (const NamedChild& child : children_) {
    all.push_back({child.name, child.module.get()});
    for (Named& below : child.module->modules()) all.push_back({child.name + "." + below.name, below.module});
  }
  return all;
}

// A module's own tensors, then its children's under their names.
static void append(std::vector<NamedTensor>& all, const std::string& prefix, const std::vector<NamedTensor>& own) {
  for (const NamedTensor& tensor : own) all.push_back({prefix + tensor.name, tensor.tensor});
}

std::vector<NamedTensor> Module::named_parameters() const {
  std::vector<NamedTensor> all = parameters_;
  for (const Named& below : modules()) append(all, below.name + ".", below.module->parameters_);
  return all;
}

std::vector<NamedTensor> Module::named_buffers() const {
  std::vector<NamedTensor> all = buffers_;
  for (const Named& below : modules()) append(all, below.name + ".", below.module->buffers_);
  return all;
}

void Module::train(bool on) {
  training_ = on && !kept_in_evaluation_;
  for (const NamedChild& child : children_) child.module->train(on);
}

void Module::fuse(bool on) {
  fused_ = on;
  for (const NamedChild& child : children_) child.module->fuse(on);
}

void Module::use_norms(const NormMath* norms) {
  norms_ = norms;
  for (const NamedChild& child : children_) child.module->use_norms(norms);
}

void Module::keep_in_evaluation(bool on) {
  kept_in_evaluation_ = on;
  if (on) training_ = false;
}

void Module::require_new_name(const std::string& name) const {
  const auto same = [&](const auto& entry) { return entry.name == name; };
  const bool taken = std::any_of(parameters_.begin(), parameters_.end(), same) ||
                     std::any_of(buffers_.begin(), buffers_.end(), same) ||
                     std::any_of(children_.begin(), children_.end(), same);
  if (name.empty() || name.find('.') != std::string::npos || taken)
    throw std::logic_error("'" + name + "' is no name for another part of a module");
}

at::Tensor Module::register_parameter(const std::string& name, at::Tensor value) {
  require_new_name(name);
  value.requires_grad_(true);
  parameters_.push_back({name, value});
  return value;
}

at::Tensor Module::register_buffer(const std::string& name, at::Tensor value) {
  require_new_name(name);
  buffers_.push_back({name, value});
  return value;
}

}  // namespace dtrain
