#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "dtrain/model/layers.hpp"

namespace dtrain {

struct Slab;

/// A DenseNet block (Huang et al. 2017) in one tensor, the slab: NHWC, as wide as the block's output, into which each
/// dense layer writes its channels. Nothing is concatenated, and what the layers share is computed once:
///
/// - All later layers see the same values of a channel, so its batch mean and variance are computed when it is made.
/// - max(0, γ·x̂ + β) is computed for a panel of pixels in cache and multiplied there (1×1 convolutions are matrix
///   products in NHWC). Backward computes it again, as in Pleiss et al. 2017, so it is never stored.
/// - The gradients that later layers give a channel, γ·d each, with d = dy where the ReLU was open, add up in a second
///   slab G. What the batch statistics add to the gradient, the mean and the projection on x̂, is linear in G and
///   applied once, when the channel's own layer is reached: dx = (1/σ)·(G − mean(G) − x̂·mean(x̂·G)). Both means follow
///   from what the layers' norms get as gradients anyway: N·mean(G) = Σ γ·dβ, N·mean(x̂·G) = Σ γ·dγ.
///
/// Each layer is one node of autograd, so that gradients of parameters are ready layer by layer while backward goes on.
/// The nodes share the slab; they are tied together by tokens of one element that carry no values. In evaluation mode
/// each norm has its running statistics, and there is no way back.
///
/// All tensors are float, or all double (plain loops: the reference), dense, on the CPU. The same bits for any number
/// of threads. Running statistics move as BatchNorm2d's do.
class DenseSlab {
 public:
  /// Whether a block can run so: kind and place of the input's and the parameters' values, and in evaluation mode no
  /// gradients asked for.
  static bool serves(const at::Tensor& x, bool training);

  /// `x` [n, C, H, W] becomes the first C of `channels` channels, all multiples of 32.
  DenseSlab(const at::Tensor& x, int64_t channels, bool training);

  /// The next channels, conv2(relu(norm2(conv1(relu(norm1(all before)))))): conv1 1×1, conv2 3×3 with padding 1.
  void add_layer(const BatchNorm2d& norm1, const Conv2d& conv1, const BatchNorm2d& norm2, const Conv2d& conv2);

  /// average_pool(conv(relu(norm(all)))) with a window of 2×2 and a 1×1 convolution [n, out, ⌊H/2⌋, ⌊W/2⌋]. It pools
  /// first: both are linear, and the product is a quarter.
  at::Tensor transition(const BatchNorm2d& norm, const Conv2d& conv);

  /// relu(norm(all)) [n, channels, H, W].
  at::Tensor normalised(const BatchNorm2d& norm);

 private:
  std::shared_ptr<Slab> slab_;
  at::Tensor token_;
};

}  // namespace dtrain
