#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "dtrain/model/layers.hpp"

namespace dtrain {

struct DeviceChannels;

/// DenseSlab on a device: the same two tensors, nodes and formulas (dense_slab.hpp), with the norms of NormMath and the
/// products and convolutions of the vendor's libraries between them. Pictures of float32, bfloat16 or float16, as
/// norm_relu_on_device(); gradients add up in the same kind of number. What is rectified is written for the product
/// behind it and freed again, forward and, made anew, back.
class DeviceSlab {
 public:
  /// Whether a block can run so; `norm`: one of its norms.
  static bool serves(const BatchNorm2d& norm, const at::Tensor& x);

  /// These compute what DenseSlab's do, of the same shapes, for any number of channels.
  DeviceSlab(const at::Tensor& x, int64_t channels, bool training);
  void add_layer(const BatchNorm2d& norm1, const Conv2d& conv1, const BatchNorm2d& norm2, const Conv2d& conv2);
  at::Tensor transition(const BatchNorm2d& norm, const Conv2d& conv);
  at::Tensor normalised(const BatchNorm2d& norm);

 private:
  std::shared_ptr<DeviceChannels> channels_;
  at::Tensor token_;
};

}  // namespace dtrain
