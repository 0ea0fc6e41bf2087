#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/optim/options.hpp"

namespace dtrain::test {

/// An optimizer, and what ten of its updates make of nine weights in float64: a tensor of six with weight decay whose
/// norms count where the optimizer looks at norms, and three biases without either. The numbers are PyTorch's and
/// timm's (tests/support/reference/optimizer_steps.py).
struct TenSteps {
  static constexpr std::array<double, 9> kStart{1, -2, 0.5, 0.25, 3, -1, 0.1, -0.2, 0};
  static constexpr double kDecay = 0.01;
  static double rate(int64_t update) { return update <= 5 ? 0.05 : 0.02; }
  static std::vector<double> gradients(int64_t update) {
    std::vector<double> values;
    for (size_t i = 0; i < kStart.size(); ++i)
      values.push_back(std::sin(static_cast<double>(update) + 2 * static_cast<double>(i)) *
                       (1 + 0.1 * static_cast<double>(update)));
    return values;
  }

  std::string name;
  OptimizerOptions options;
  std::array<double, 9> wanted;
};

std::vector<TenSteps> ten_steps();

}  // namespace dtrain::test
