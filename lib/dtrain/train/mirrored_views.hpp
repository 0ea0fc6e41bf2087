#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dtrain/base/task.hpp"

namespace dtrain {

/// Along which dimensions of [n, C, H, W] a picture is mirrored for each view, first none: for segmentation left to
/// right, top to bottom, and both (nnU-Net mirrors along all axes); for the other tasks left to right alone, because a
/// class may depend on what is up (a chest X-ray is never seen upside down).
std::vector<std::vector<int64_t>> mirrored_views(Task task);

/// What `say` says of a picture, as tensors whose first dimension is that of the pictures.
using SayOfPictures = std::function<std::vector<at::Tensor>(const at::Tensor& images)>;

/// The means of what `say` says of every view of `images` [n, C, H, W], laid out as `images` are. Results that lie over
/// the picture, those of four dimensions, are mirrored back first. Sums run over the views in their order; with one
/// view that mirrors nothing the results are those of `say`, bit for bit.
std::vector<at::Tensor> mean_over_views(const at::Tensor& images, const std::vector<std::vector<int64_t>>& views,
                                        const SayOfPictures& say);

}  // namespace dtrain
