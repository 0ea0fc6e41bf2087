#include "dtrain/data/pixels/called_classes.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

// In float32 and in the order of the classes, as called_masks() computes it.
static double background(const std::vector<std::vector<float>>& probabilities, size_t pixel) {
  float left = 1;
  for (const std::vector<float>& plane : probabilities) left -= plane[pixel];
  return static_cast<double>(left);
}

std::vector<uint8_t> called_classes(const std::vector<std::vector<float>>& probabilities,
                                    std::optional<double> threshold) {
  check(!probabilities.empty() && probabilities.size() <= 255, "a mask has from 1 to 255 classes");
  std::vector<uint8_t> called(probabilities.front().size(), 0);
  for (size_t i = 0; i < called.size(); ++i) {
    double most = threshold ? *threshold : background(probabilities, i);
    for (size_t k = 0; k < probabilities.size(); ++k)
      if (static_cast<double>(probabilities[k][i]) > most) {
        most = static_cast<double>(probabilities[k][i]);
        called[i] = static_cast<uint8_t>(k + 1);
      }
  }
  return called;
}

at::Tensor called_masks(const at::Tensor& probabilities, bool exclusive) {
  at::Tensor most = at::full_like(probabilities.select(1, 0), exclusive ? 1 : 0.5);
  for (int64_t k = 0; exclusive && k < probabilities.size(1); ++k) most = most - probabilities.select(1, k);
  at::Tensor called = at::zeros_like(most, at::kLong);
  for (int64_t k = 0; k < probabilities.size(1); ++k) {
    const at::Tensor here = probabilities.select(1, k);
    const at::Tensor more = here.gt(most);
    called.masked_fill_(more, k + 1);
    most = at::where(more, here, most);
  }
  const at::Tensor classes = at::arange(1, probabilities.size(1) + 1, called.options()).view({1, -1, 1, 1});
  return called.unsqueeze(1).eq(classes);
}

}  // namespace dtrain
