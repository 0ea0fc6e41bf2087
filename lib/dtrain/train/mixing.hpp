#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dtrain/base/random.hpp"

namespace dtrain {

/// data.augment.mixup and cutmix: alpha of each; 0: off. With both on each batch gets one of the two, either with
/// probability 1/2.
struct MixOptions {
  double mixup = 0;
  double cutmix = 0;

  bool on() const { return mixup > 0 || cutmix > 0; }
};

/// How one batch is mixed: each sample with the one before it, the first with the last. One draw for the whole batch;
/// the order of samples is random already, so neighbours are random partners.
struct MixDraw {
  double share = 1;  ///< λ: of a picture itself; 1 - λ is its partner's
  bool cut = false;  ///< cutmix: a rectangle is the partner's; else every pixel is a weighted mean
  double y = 0.5;    ///< cutmix: centre of the rectangle, share of the picture
  double x = 0.5;
};

/// Keyed by (seed, pass, logical rank), which no two batches of a run share, and so the same on any number of
/// processes. λ ~ Beta(alpha, alpha).
MixDraw draw_mix(const MixOptions& options, uint64_t seed, int64_t pass, int64_t logical_rank);

/// A batch that is mixed.
struct MixedBatch {
  at::Tensor images;   ///< [n, C, H, W]
  at::Tensor targets;  ///< [2n, …]: the samples' own, then their partners'
  double share = 1;    ///< of the first ones in the loss; for cutmix the area that is actually left
};

/// mixup (Zhang et al. 2018): λ·image + (1 − λ)·partner. cutmix (Yun et al. 2019): a rectangle with sides √(1 − λ) of
/// the picture's, cut at the edges, is the partner's. For segmentation (`masks`: targets [n, K, H, W]) cutmix pastes
/// the partner's mask along with the picture: `share` is then 1. A batch of one is not changed. The arguments stay as
/// they are.
MixedBatch mix_batch(const MixDraw& draw, const at::Tensor& images, const at::Tensor& targets, bool masks);

/// X ÷ (X + Y) of two Gamma(alpha) numbers: Beta(alpha, alpha), in [0, 1]. alpha > 0.
double draw_beta(KeyedRandom& random, double alpha);

}  // namespace dtrain
