#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "dtrain/model/module.hpp"

namespace dtrain {

class ForwardGraph;

/// Stands in for a tensor in a forward pass that writes down its operators instead of computing them: the third kind of
/// value, beside tensors and sketches, that every layer and function of layers.hpp and functions.hpp takes.
struct GraphValue {
  std::string name;
  ForwardGraph* graph = nullptr;  ///< outlives the pass

  /// What an operator of one input makes of it, as ForwardGraph::add().
  GraphValue through(const std::string& op, const std::vector<at::Tensor>& weights = {}) const;
};

/// The operators of a forward pass in evaluation mode, as ONNX names and defines them (onnx.ai/onnx/operators), each
/// with its inputs before it. Nothing is computed, and tensors are referred to, not copied.
class ForwardGraph {
 public:
  struct Attribute {
    std::string name;
    std::variant<int64_t, float, std::vector<int64_t>> value;
  };
  struct Node {
    std::string op;
    std::vector<std::string> inputs;  ///< names of values and tensors
    std::string output;
    std::vector<Attribute> attributes;
  };

  /// Learns the dotted names of the tensors of `network`, of which the operators will read some.
  explicit ForwardGraph(const Module& network);

  /// A value that comes from outside.
  GraphValue input(const std::string& name) { return {name, this}; }
  /// A tensor that is none of the network's. Of two under one name, which must be equal, the graph holds one.
  GraphValue constant(const std::string& name, const at::Tensor& tensor);
  /// What `op` makes of these values and, after them, of these tensors of the network; undefined tensors are left out.
  /// A value named "" is an input that `op` does without.
  GraphValue add(const std::string& op, const std::vector<GraphValue>& of, const std::vector<at::Tensor>& weights = {},
                 std::vector<Attribute> attributes = {});
  /// Ends the graph: the last operator's result is called `name` from now on.
  void finish(const std::string& name);

  const std::vector<Node>& nodes() const { return nodes_; }
  /// The tensors that operators read, in the order in which they were first read.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  const std::string& read(const at::Tensor& tensor);

  struct Known {
    std::string name;
    bool read = false;
  };
  std::map<const c10::TensorImpl*, Known> known_;  // rebinding a tensor's data leaves this address as it is
  std::vector<NamedTensor> tensors_;
  std::vector<Node> nodes_;
};

}  // namespace dtrain
