#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/device/late_copy.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/flat_layout.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/optim/groups.hpp"
#include "dtrain/optim/loss_scale.hpp"
#include "dtrain/optim/optimizer.hpp"

namespace dtrain {

/// This process's copy of everything that training changes: the network, the optimizer's state, the loss scale.
/// Parameters are in one flat tensor, floating-point buffers (BatchNorm's statistics) in another; the network's own
/// tensors are views of them. Between steps all replicas of a job are equal bit for bit.
///
/// Parameters that optimizer.groups freezes need no gradient, and neither gradients nor optimizer state have room for
/// them: both are laid out like the first trained_numel() floats of the parameters. A norm whose parameters are all
/// frozen stays in evaluation mode: it normalises by the statistics that it has, and keeps them.
///
/// A further tensor that training changes has its place in each of these: broadcast_from(), reorder() where it lies as
/// the parameters do, checkpoint_tensors(), and hash_weights() with weight_names().
class Replica {
 public:
  /// Takes over the network, converts it to `format` and moves it to `device` (except BatchNorm's counters). The flat
  /// layout begins with the parameters in reverse order, the one in which backward usually reaches them; frozen ones
  /// come last. Throws ConfigError as parameter_rules().
  Replica(std::shared_ptr<Network> network, at::MemoryFormat format, const OptimizerOptions& optimizer,
          const Device& device = {}, Precision precision = Precision::fp32);

  Network& network() { return *network_; }
  /// The network's float32 logits for float32 `images`, computed in precision(). Everything that needs the network's
  /// logits gets them here.
  at::Tensor forward(const at::Tensor& images);
  /// Network::forward_all likewise.
  std::vector<at::Tensor> forward_all(const at::Tensor& images);
  /// Network::forward_pooled likewise: float32 logits, those of forward() to the bit, and float32 maps.
  Network::PooledPass forward_pooled(const at::Tensor& images);
  Precision precision() const { return precision_; }
  /// In use with Precision::fp16.
  LossScale& loss_scale() { return loss_scale_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// Leaf tensors in registration order; all but the frozen ones require gradients.
  const std::vector<at::Tensor>& parameters() const { return parameters_.tensors; }
  const std::vector<std::string>& parameter_names() const { return parameters_.names; }
  /// Of the flat parameters: parameter i is at place place_of(i).
  const FlatLayout& layout() const { return *parameters_.layout; }
  size_t place_of(size_t parameter) const { return parameters_.place_of[parameter]; }
  /// parameters() in the order of the layout.
  std::vector<at::Tensor> parameters_in_layout() const;
  /// Those that are not frozen, in the order of the layout, which begins with them; and its part that they take.
  std::vector<at::Tensor> trained_parameters() const;
  int64_t trained_numel() const;
  bool is_frozen(size_t parameter) const { return place_of(parameter) >= parameters_.trained; }
  bool has_frozen() const { return parameters_.trained < parameters_.tensors.size(); }
  /// From now on frozen parameters and norms train like the others: their optimizer state begins at zero, the bias
  /// corrections of their updates count from `updates`, and their norms take over the others' steps_tracked().
  /// trained_parameters() keep their places, and the thawed ones follow.
  void thaw(int64_t updates);
  /// Moves trained parameters and their optimizer state to another layout: place k gets what was at place order[k].
  /// Changes no value.
  void reorder(const std::vector<size_t>& order);
  const at::Tensor& flat_parameters() const { return parameters_.flat; }
  const at::Tensor& flat_buffers() const { return buffers_.flat; }
  /// Of these what training changes: all but the statistics of frozen norms.
  at::Tensor moving_buffers() const { return buffers_.flat.slice(0, 0, buffers_.moving_numel); }
  at::MemoryFormat memory_format() const { return format_; }
  const Device& device() const { return device_; }

  /// Number of training forward passes that BatchNorm has counted (num_batches_tracked): one per step, whatever V is.
  /// Frozen norms count none.
  int64_t steps_tracked() const;
  void set_steps_tracked(int64_t steps);

  /// From now on the replica keeps a moving average of parameters and statistics, frozen ones included, which begins
  /// with their present values. Called again it begins anew.
  void keep_average(const EmaOptions& options);
  bool has_average() const { return average_.parameters.defined(); }
  /// After an update: moves the average by ema_decay() of as many updates as the optimizer has done.
  void move_average();
  /// Exchanges the weights and statistics that the network computes with and their average, bit for bit. Twice changes
  /// nothing.
  void swap_average();

  /// Rank `root`'s values on every rank.
  void broadcast_from(Communicator& comm, int root);

  /// model.* : parameters and buffers under torchvision's names, for best.safetensors without the prefix.
  std::vector<FileTensor> model_tensors(const std::string& prefix) const;
  /// optimizer.<parameter>.<state>
  std::vector<FileTensor> optimizer_tensors() const;
  /// ema.<parameter or buffer>: the average, without BatchNorm's counters; empty without an average.
  std::vector<FileTensor> average_tensors() const;
  /// What a checkpoint holds: model_tensors("model."), optimizer_tensors() and average_tensors(). A resumed run fills
  /// these.
  std::vector<FileTensor> checkpoint_tensors() const;
  /// The contract's result_sha256 of the model.
  std::string sha256() const;

  /// CRC32C of each tensor that all replicas must agree on, in a fixed order, its gap in the flat layout included;
  /// names as in a checkpoint. hash_buffers(): what is cheap, BatchNorm's statistics and counters, the
  /// optimizer's count ("optimizer.updates") and the loss scale ("loss_scale"); hash_weights(): parameters and
  /// optimizer state.
  std::vector<uint32_t> hash_buffers() const { return hash_buffers(see_buffers()); }
  std::vector<std::string> buffer_names() const;
  std::vector<uint32_t> hash_weights() const;
  std::vector<std::string> weight_names() const;
  /// hash_buffers() in two parts: what they hold now, which a GPU copies while it works on, and its hashes.
  struct SeenBuffers {
    LateCopy statistics;
    std::vector<uint32_t> others;  ///< hashes of all else
  };
  SeenBuffers see_buffers() const;
  std::vector<uint32_t> hash_buffers(const SeenBuffers& seen) const;

 private:
  void take_rules();
  std::set<std::string> frozen_buffers();
  void lay_out_buffers(const at::TensorOptions& options);
  std::vector<FileTensor> averages_of_buffers() const;
  void give_rules();

  struct Parameters {  // in registration order
    std::vector<std::string> names;
    std::vector<at::Tensor> tensors;  // views of `flat`
    std::vector<ParameterRule> rules;
    std::vector<size_t> place_of;  // of each in the layout
    size_t trained = 0;            // places, which come before those of frozen ones
    int64_t thawed_at = 0;         // updates before the first one of thawed ones
    std::unique_ptr<FlatLayout> layout;
    at::Tensor flat;
  };
  struct Buffers {
    std::vector<NamedTensor> named;  // views of `flat`; those of frozen norms last
    std::unique_ptr<FlatLayout> layout;
    at::Tensor flat;
    int64_t moving_numel = 0;           // of these, without frozen norms
    std::vector<NamedTensor> counters;  // num_batches_tracked, which are whole numbers; those of frozen norms last
    size_t moving_counters = 0;
  };

  struct Average {  // laid out as the parameters' and the buffers' flat tensors
    EmaOptions options;
    at::Tensor parameters, buffers;
    at::Tensor not_finite;  // which nobody asks for: the weights are checked
  };

  std::shared_ptr<Network> network_;
  at::MemoryFormat format_;
  Device device_;
  Precision precision_;
  OptimizerOptions options_;
  Parameters parameters_;
  Buffers buffers_;
  Average average_;  // tensors are undefined without one
  std::unique_ptr<Optimizer> optimizer_;
  LossScale loss_scale_;
};

/// While it lives, a replica with an average computes with that, and its model_tensors() are the averaged ones.
class AveragedWeights {
 public:
  explicit AveragedWeights(Replica& replica) : replica_(replica) { replica_.swap_average(); }
  ~AveragedWeights() { replica_.swap_average(); }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  Replica& replica_;
};

}  // namespace dtrain
