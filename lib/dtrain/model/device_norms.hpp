#pragma once
#include <ATen/core/Tensor.h>

#include "dtrain/device/norm_math.hpp"
#include "dtrain/model/layers.hpp"

namespace dtrain {

/// Norms with a ReLU on a device, with the passes of NormMath: NHWC pictures of float32, bfloat16 or float16, which
/// results and gradients are too, with norms of float32. Beside LibTorch's operators for the two, one pass over memory
/// is spared each way, forward two where something is added (docs/architecture.md counts them).

/// Whether what follows can compute it: the module has norms, and x lies so.
bool fuses_on_device(const BatchNorm2d& norm, const at::Tensor& x);
/// relu(norm(x)), or relu(norm(x) + more) if `more` is given, of x's shape: one node of autograd.
at::Tensor norm_relu_on_device(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more);

/// Of rows of a kind of number that NormMath has.
NormShape norm_shape(const at::Tensor& rows);
/// No data if it is undefined.
NormInput norm_input(const at::Tensor& rows);
NormOutput norm_output(const at::Tensor& rows);

/// A norm over the pixels x [pixels, channels], whose rows may lie apart, and what its way back needs; without history.
struct DeviceNorm {
  DeviceNorm() = default;
  /// With x's own statistics, found here, in training mode, else with the running ones.
  DeviceNorm(const BatchNorm2d& norm, const at::Tensor& x);
  /// With the statistics of the batch, mean and variance [channels], found before; in training mode.
  DeviceNorm(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& variance);

  /// relu(norm(x)) or relu(norm(x) + more), [pixels, channels].
  at::Tensor rectified(const at::Tensor& more = {}) const;

  struct Gradients {
    at::Tensor gamma, beta;
  };
  /// NormMath::rectify_back; `result` may be undefined.
  Gradients rectify_back(const at::Tensor& dy, const at::Tensor& result, const NormGradient& d) const;
  /// NormMath::centre_back.
  void centre_back(const at::Tensor& given, bool is_rectified, const Gradients& sums, const at::Tensor& dx) const;

  NormColumns columns() const;

  const NormMath* math = nullptr;
  at::Tensor x, gamma, beta, mean, variance;
};

}  // namespace dtrain
