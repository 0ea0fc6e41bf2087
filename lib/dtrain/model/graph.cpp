#include "dtrain/model/graph.hpp"

#include <algorithm>
#include <utility>

#include "dtrain/base/error.hpp"

namespace dtrain {

GraphValue GraphValue::through(const std::string& op, const std::vector<at::Tensor>& weights) const {
  return graph->add(op, {*this}, weights);
}

ForwardGraph::ForwardGraph(const Module& network) {
  for (const auto& tensors : {network.named_parameters(), network.named_buffers()})
    for (const NamedTensor& one : tensors) known_[one.tensor.unsafeGetTensorImpl()] = {one.name};
}

const std::string& ForwardGraph::read(const at::Tensor& tensor) {
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  check(found != known_.end(), "every tensor of a forward pass is registered in its network");
  if (!std::exchange(found->second.read, true)) tensors_.push_back({found->second.name, tensor});
  return found->second.name;
}

GraphValue ForwardGraph::constant(const std::string& name, const at::Tensor& tensor) {
  const bool known = std::ranges::any_of(tensors_, [&](const NamedTensor& one) { return one.name == name; });
  if (!known) tensors_.push_back({name, tensor});
  return {name, this};
}

GraphValue ForwardGraph::add(const std::string& op, const std::vector<GraphValue>& of,
                             const std::vector<at::Tensor>& weights, std::vector<Attribute> attributes) {
  Node node{op, {}, op + "_" + std::to_string(nodes_.size()), std::move(attributes)};
  for (const GraphValue& value : of) node.inputs.push_back(value.name);
  for (const at::Tensor& tensor : weights)
    if (tensor.defined()) node.inputs.push_back(read(tensor));
  nodes_.push_back(std::move(node));
  return {nodes_.back().output, this};
}

void ForwardGraph::finish(const std::string& name) {
  check(!nodes_.empty(), "a graph has an operator that makes its result");
  nodes_.back().output = name;
}

}  // namespace dtrain
