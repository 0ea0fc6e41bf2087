#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace dtrain {

// Which class a pixel is taken for: the one whose probability is above the threshold and the largest, of equal ones the
// lower class; none, background, where no probability is above it. Of classes that exclude each other the threshold is
// background's own probability: what theirs leave of 1. Masks are written, judged and drawn by this rule.

/// Of one picture. `probabilities`: one plane for each class, of at most 255, all of the same size. The class 1, 2 … of
/// each pixel; 0: background. `threshold`: nothing for classes that exclude each other.
std::vector<uint8_t> called_classes(const std::vector<std::vector<float>>& probabilities,
                                    std::optional<double> threshold);

/// Of a batch, with the threshold ½ or for classes that exclude each other: probabilities [n, K, H, W] → bool [n, K, H,
/// W] on the same device, true for the pixel's class, so for one class at most.
at::Tensor called_masks(const at::Tensor& probabilities, bool exclusive = false);

}  // namespace dtrain
