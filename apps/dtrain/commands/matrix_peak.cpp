#include "commands/matrix_peak.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <cmath>

#include "dtrain/base/time.hpp"

namespace dtrain {

template <class Work>
static double best_seconds(int times, const Work& work) {
  double best_s = 1e9;
  for (int i = 0; i < times; ++i) {
    const Stopwatch watch;
    at::Tensor first = work();
    while (first.dim() > 0) first = first[0];
    first.item<float>();  // waits for a GPU
    best_s = std::min(best_s, watch.seconds());
  }
  return best_s;
}

static at::Tensor ones(int64_t side, Precision precision, c10::Device device) {
  const auto type = precision == Precision::bf16   ? at::kBFloat16
                    : precision == Precision::fp16 ? at::kHalf
                                                   : at::kFloat;
  return at::ones({side, side}, at::TensorOptions(type).device(device));
}

int64_t matrix_peak_side(c10::Device device, Precision precision) {
  constexpr double kEnough_s = 0.02;
  if (device.is_cpu()) return 1024;
  const at::NoGradGuard no_grad;
  int64_t side = 256;
  for (; side < 8192; side *= 2) {
    const at::Tensor a = ones(side, precision, device);
    if (best_seconds(2, [&] { return at::mm(a, a); }) > kEnough_s) break;
  }
  return side;
}

double matrix_peak(c10::Device device, Precision precision, int64_t side, int products) {
  const at::NoGradGuard no_grad;
  const at::Tensor a = ones(side, precision, device);
  const at::Tensor b = at::ones_like(a);
  double best_s = best_seconds(products, [&] { return at::mm(a, b); });
  if (device.is_cpu() && a.scalar_type() != at::kHalf) {
    // The same product by oneDNN, as a 1x1 convolution of 32 pictures.
    const at::Tensor pictures = a.view({32, 1, side / 32, side}).permute({0, 3, 1, 2}),
                     kernel = b.view({side, side, 1, 1});
    best_s = std::min(best_s, best_seconds(products, [&] { return at::conv2d(pictures, kernel); }));
  }
  return 2e-9 * std::pow(static_cast<double>(side), 3) / best_s;
}

}  // namespace dtrain
