#pragma once
#include <cstddef>
#include <functional>

#include "dtrain/model/loss.hpp"

namespace dtrain {

/// The probability of output k that has the lowest loss if all samples are given it, kept half a sample away from 0 and
/// 1; 1/2 without any known label. `loss` of such a probability is convex.
double best_constant(const LabelCounts& known, size_t k, const std::function<double(double)>& loss);

}  // namespace dtrain
