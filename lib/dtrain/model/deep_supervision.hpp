#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dtrain/model/loss.hpp"

namespace dtrain {

/// Deep supervision (Lee et al., "Deeply-Supervised Nets", AISTATS 2015) as nnU-Net has it (Isensee et al. 2021): the
/// weighted mean of a loss at several resolutions of a network's logits, Network::forward_all(), whose first are of the
/// targets' size, each of the others of half the sides of the one before. Of a single resolution it is the loss itself.

/// 1, 1/2, 1/4 … divided by their sum.
std::vector<double> resolution_weights(size_t resolutions);

/// Targets [n, K, H, W] at sides 1/2^halvings as long: of each square the pixel right and below its centre, PyTorch's
/// nearest-exact. H and W are multiples of 2^halvings.
at::Tensor lowered_targets(const at::Tensor& targets, int64_t halvings);

/// [n, R, K, 3], float64: Loss::sums() at each of the R resolutions.
at::Tensor deep_sums(const Loss& loss, const std::vector<at::Tensor>& logits, const at::Tensor& targets);

/// [n]: the weighted mean of Loss::per_sample(). `batch`: its sums are [R, K, 3], or undefined.
at::Tensor deep_per_sample(const Loss& loss, const std::vector<at::Tensor>& logits, const at::Tensor& targets,
                           const BatchSums& batch = {});

}  // namespace dtrain
