#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/model/graph.hpp"
#include "dtrain/model/module.hpp"
#include "dtrain/model/options.hpp"
#include "dtrain/model/pass_tape.hpp"

namespace dtrain {

/// What the data require of a network.
struct NetworkShape {
  int64_t channels = 3;  ///< of the input picture
  int64_t height = 224;
  int64_t width = 224;
  int64_t outputs = 1;            ///< logits per picture, or per pixel if the network predicts per pixel
  bool deep_supervision = false;  ///< in training logits at lower_logits_of() lower resolutions too
};

/// One of the networks (network_kind.hpp). Parameters and buffers have torchvision's names (docs/architecture.md lists
/// the sources).
///
/// forward(): float32 (or float64 after to(kDouble)) pictures [n, C, H, W] in any memory format → logits [n, outputs],
/// [n, outputs, H, W] if it predicts per pixel; 16-bit logits inside an AutocastScope that asks for them. The
/// format is kept, not chosen: callers lay pictures out as memory_format_for() says. Training and evaluation mode as in
/// Module::train() and eval(). In training mode BatchNorm uses the statistics of the batch: a norm that sees one value
/// per channel gives NaN, so callers must not pass such a batch.
///
/// Layers read the registered tensors at every pass: parameters, gradients and buffers may be rebound by set_data().
class Network : public Module {
 public:
  virtual at::Tensor forward(const at::Tensor& images) = 0;

  /// For training: forward()'s logits, to the bit, and after them those of each lower resolution, the finest first, if
  /// the network was made with NetworkShape::deep_supervision.
  virtual std::vector<at::Tensor> forward_all(const at::Tensor& images) { return {forward(images)}; }

  /// A forward pass that keeps what the global average pooling before the last layer reads.
  struct PooledPass {
    at::Tensor logits;  ///< forward()'s, to the bit
    at::Tensor maps;    ///< [n, C, h, w]: their means over h and w are what the last layer, a linear one, weighs
  };
  /// True if the network ends in global average pooling and one linear layer: then it has class activation maps
  /// (class_maps.hpp).
  virtual bool ends_in_pooling() const { return false; }
  /// Throws InternalError for a network that does not end in pooling.
  virtual PooledPass forward_pooled(const at::Tensor& images);

  /// Keys the random numbers of the next forward passes (dropout): a pure function of (seed, step, logical rank).
  /// Networks without random layers ignore it; one with them throws InternalError in training mode before it.
  virtual void set_random_key(uint64_t seed, int64_t step, int64_t logical_rank);

  /// The layers in the order of the forward pass for one picture of the given shape, for `dtrain check`. What works in
  /// place (ReLU, shortcuts) is not listed. Computes nothing. `shape` has the channels and size it was built for.
  struct Layer {
    std::string name;             ///< dotted name of the module
    std::string kind;             ///< conv, conv_transpose, norm, pool, upsample, concat, dropout, linear
    std::vector<int64_t> output;  ///< shape without the batch dimension
    int64_t parameters = 0;
    int64_t flop = 0;  ///< of one forward pass: multiply-adds of conv and linear, each counted as 2; otherwise 0
  };
  virtual std::vector<Layer> layers(const NetworkShape& shape) const = 0;

  /// The operators of that pass, what works in place included. Computes nothing. `fused`: as it runs where blocks can
  /// be computed in passes of our own (on a CPU in 32 bits), else operator by operator.
  virtual PassTape tape(const NetworkShape& shape, bool fused) const = 0;

  /// The same pass in evaluation mode, written into the graph of `images`, which was made for this network; returns the
  /// logits. Computes nothing.
  virtual GraphValue trace(const GraphValue& images) const = 0;

  /// Names of the parameters of the last layer, whose shape follows from `outputs`: the only ones in which a weights
  /// file may differ.
  virtual std::vector<std::string> head() const = 0;

  /// What the names of the parameters begin with that NetworkShape::deep_supervision adds, whether they are here or
  /// not: a weights file may lack them or hold them in vain. "": there are none in such networks.
  virtual std::string lower_head_prefix() const { return ""; }

  /// A part that another network's weights fit, its encoder.
  struct BorrowedPart {
    std::string prefix;               ///< of its tensors' names, which go on as in a file of that network
    std::vector<std::string> unused;  ///< what such a file holds besides
  };
  virtual std::optional<BorrowedPart> borrowed_part() const { return std::nullopt; }

  /// The name here of the tensor that a file calls `name`; they differ for names in older files.
  virtual std::string current_name(const std::string& name) const { return name; }
};

/// Builds the network options.kind with its initial weights, drawn as its row says (torchvision's or PyTorch's
/// distributions), but from KeyedRandom(seed, initial_weights, hash64(parameter name)): the same on every machine and
/// rank. On the CPU, in training mode; `shape.outputs` counts, options.outputs and options.weights are ignored.
/// Throws ConfigError with wrong_size() for a picture that the network cannot work on.
std::shared_ptr<Network> make_network(const ModelOptions& options, const NetworkShape& shape, uint64_t seed);

/// The same network without a draw, which takes longer than a file is read: its convolutions and linear layers hold
/// what the memory held. For a caller that fills every tensor (fill_tensors).
std::shared_ptr<Network> make_unfilled_network(const ModelOptions& options, const NetworkShape& shape);

/// The memory format a network computes in: its row says it for each device, never a timing probe, because the bits
/// depend on it.
at::MemoryFormat memory_format_for(const NetworkKind& kind, at::DeviceType device);

/// Names of the convolution kernels among the parameters (those with four dimensions): what loss.l2_kernels acts on.
std::vector<std::string> kernel_names(const Network& network);

}  // namespace dtrain
