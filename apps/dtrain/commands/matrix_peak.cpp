#include "commands/matrix_peak.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "dtrain/base/time.hpp"

namespace dtrain {

double matrix_peak(c10::Device device, Precision precision, int64_t side, int products) {
  const auto type = precision == Precision::bf16   ? at::kBFloat16
                    : precision == Precision::fp16 ? at::kHalf
                                                   : at::kFloat;
  const at::Tensor a = at::ones({side, side}, at::TensorOptions(type).device(device));
  const at::Tensor b = at::ones_like(a);
  at::Tensor c = at::empty_like(a);
  double best_s = 1e9;
  for (int i = 0; i < products; ++i) {
    const Stopwatch watch;
    at::mm_out(c, a, b);
    c[0][0].item<float>();  // waits for a GPU
    best_s = std::min(best_s, watch.seconds());
  }
  return 2e-9 * std::pow(static_cast<double>(side), 3) / best_s;
}

}  // namespace dtrain
