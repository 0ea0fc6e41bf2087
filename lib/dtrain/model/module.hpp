#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace dtrain {

class NormMath;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// A part of a network: its own parameters and buffers, and the parts inside it, each under a name. Names of the whole
/// tree are joined by dots, and everything is listed in the order of registration, a part's own tensors before those
/// of its children: the names and the order of a Python module's state_dict.
/// It replaces torch::nn::Module, of which the networks need no more than this and whose header takes four times as
/// long to compile as all other headers of a network's file.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  struct Named {
    std::string name;
    Module* module;
  };
  /// All modules below this one, parents before their children.
  std::vector<Named> modules() const;
  /// Of this module and all below.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  /// This module's only.
  const std::vector<NamedTensor>& own_parameters() const { return parameters_; }
  const std::vector<NamedTensor>& own_buffers() const { return buffers_; }

  /// Training mode, in which a module starts, or evaluation mode, for this module and all below.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  /// While it is on this module, but none below it, stays in evaluation mode whatever train() asks for.
  void keep_in_evaluation(bool on);

  /// Whether this module and all below may compute in passes of our own (fused_layers.hpp, dense_slab.hpp). A module
  /// starts with LibTorch's operators.
  void fuse(bool on = true);
  bool is_fused() const { return fused_; }
  /// On a device: the norms that this module and all below may use where they are fused (device_norms.hpp); they must
  /// outlive it. Null, as in the beginning: none.
  void use_norms(const NormMath* norms);
  const NormMath* norms() const { return norms_; }

 protected:
  // Each throws std::logic_error for a name that is empty, has a dot, or is taken by another of this module's tensors
  // or parts: two tensors of one name could not be told apart in a file.
  /// `value`, which from now on requires gradients.
  at::Tensor register_parameter(const std::string& name, at::Tensor value);
  at::Tensor register_buffer(const std::string& name, at::Tensor value);
  template <class Child>
  std::shared_ptr<Child> register_module(const std::string& name, std::shared_ptr<Child> child) {
    require_new_name(name);
    children_.push_back({name, child});
    return child;
  }

 private:
  struct NamedChild {
    std::string name;
    std::shared_ptr<Module> module;
  };

  void require_new_name(const std::string& name) const;

  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<NamedChild> children_;
  bool training_ = true;
  bool fused_ = false;
  const NormMath* norms_ = nullptr;
  bool kept_in_evaluation_ = false;
};

}  // namespace dtrain
