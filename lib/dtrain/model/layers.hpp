#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "dtrain/model/graph.hpp"
#include "dtrain/model/sketch.hpp"

namespace dtrain {

/// The layers that the networks are built from: thin modules that register their tensors under PyTorch's names and
/// call one operator. They read the registered tensors at every call and keep no copies, because the trainer rebinds
/// parameters, gradients and buffers to slices of flat tensors (`set_data`). Tensors are made uninitialised
/// (initial_weights.hpp fills them), those of BatchNorm2d with 1 and 0.

/// Kernels are square; `stride` and `padding` hold for both directions.
struct ConvShape {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = false;
};

struct Epilogue;  // row_products.hpp

/// A pooling window.
struct Window {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;

  /// Of so many pixels in one direction.
  int64_t outputs(int64_t size) const { return (size + 2 * padding - kernel) / stride + 1; }
};

/// How a convolution is computed.
enum class ConvWay {
  library,  ///< by LibTorch's operator
  lines,    ///< the same, which gets the lines of NHWC pictures as pictures of their own: LibTorch 2.11 leaves fewer
            ///< than 16 pictures on one thread to im2col and a matrix product (use_mkldnn in
            ///< ATen/native/Convolution.cpp), which takes up to twice as long as oneDNN's kernel
  product,  ///< by pointwise.hpp
  tiles,    ///< by winograd.hpp
};

/// The way back through a convolution, for a node of autograd that has one in it (graph_node.hpp).
struct ConvBack {
  at::Tensor weight;  ///< without history
  ConvShape shape;
  ConvWay way = ConvWay::library;

  struct Gradients {
    at::Tensor x, weight, bias;
  };
  /// The gradients for that of the result, to the bit those of autograd; those that are not asked for may be undefined.
  /// That of a bias only where the way is `tiles`; throws InternalError elsewhere.
  Gradients operator()(const at::Tensor& x, const at::Tensor& dy, bool of_x, bool of_weight,
                       bool of_bias = false) const;
};

/// weight [out, in, k, k], bias [out] or absent. Where it is fused it takes the fastest way for NHWC pictures on a CPU.
class Conv2d : public Module {
 public:
  explicit Conv2d(const ConvShape& shape);
  at::Tensor operator()(const at::Tensor& x) const;
  /// With its epilogue: without a history, of NHWC pictures, to multiples of kColumns channels.
  at::Tensor with_epilogue(const at::Tensor& x, const Epilogue& epilogue) const;
  Sketch operator()(const Sketch& x) const;
  /// What PassTape has of such a step.
  int64_t workspace(const Sketch& x) const;
  GraphValue operator()(const GraphValue& x) const;
  /// For what operator() makes of x, in another node; throws InternalError with a bias.
  ConvBack back(const at::Tensor& x) const;

  at::Tensor weight, bias;

 private:
  ConvWay way_of(const at::Tensor& x) const;
  at::Tensor by_library(const at::Tensor& x, ConvWay way) const;
  at::Tensor by_ours(const at::Tensor& x, ConvWay way, const Epilogue& epilogue) const;
  bool can_be_product() const { return shape_.kernel == 1 && shape_.padding == 0 && !shape_.bias; }
  bool can_go_by_tiles() const { return shape_.kernel == 3 && shape_.stride == 1 && shape_.padding == 1; }

  ConvShape shape_;
};

/// weight [in, out, k, k], bias [out] or absent; padding must be 0.
class ConvTranspose2d : public Module {
 public:
  explicit ConvTranspose2d(const ConvShape& shape);
  at::Tensor operator()(const at::Tensor& x) const;
  Sketch operator()(const Sketch& x) const;
  GraphValue operator()(const GraphValue& x) const;

  at::Tensor weight, bias;

 private:
  ConvShape shape_;
};

/// Batch normalisation (Ioffe and Szegedy 2015) with eps 1e-5. A forward pass in training mode uses the statistics of
/// its batch, moves running_mean and running_var towards them by 0.1 and adds 1 to num_batches_tracked (int64), all
/// in place.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(int64_t channels);
  at::Tensor operator()(const at::Tensor& x) const;
  Sketch operator()(const Sketch& x) const;
  GraphValue operator()(const GraphValue& x) const;

  static constexpr double kEpsilon = 1e-5;
  static constexpr double kMomentum = 0.1;
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};

/// weight [out, in], bias [out].
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out);
  at::Tensor operator()(const at::Tensor& x) const;
  Sketch operator()(const Sketch& x) const;
  GraphValue operator()(const GraphValue& x) const;

  at::Tensor weight, bias;
};

/// In training mode sets each feature to 0 with probability p and divides the others by 1 - p; otherwise the identity.
/// The mask is a pure function of the key and the place in the batch [n, features], drawn on the host, so that it is
/// the same on every device, process and thread count. Throws InternalError in training mode without a key, unless
/// p = 0.
class KeyedDropout : public Module {
 public:
  explicit KeyedDropout(double p) : p_(p) {}
  void set_key(uint64_t seed, int64_t step, int64_t logical_rank) { key_ = Key{seed, step, logical_rank}; }
  at::Tensor operator()(const at::Tensor& x) const;
  Sketch operator()(const Sketch& x) const;
  GraphValue operator()(const GraphValue& x) const;

 private:
  struct Key {
    uint64_t seed;
    int64_t step, logical_rank;
  };
  double p_;
  std::optional<Key> key_;
};

}  // namespace dtrain
