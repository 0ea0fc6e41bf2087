#include "dtrain/train/mixing.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>

namespace dtrain {

// The logarithm of a Gamma(alpha) number: Marsaglia and Tsang (2000) for alpha + 1, reduced to alpha. A logarithm,
// because the number itself could underflow for a small alpha, and the share would be 0 ÷ 0.
static double log_gamma_number(KeyedRandom& random, double alpha) {
  const double d = alpha + 1 - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal();
    const double v = std::pow(1 + c * x, 3);
    const double u = 1 - random.uniform();  // (0, 1]
    if (v > 0 && std::log(u) < x * x / 2 + d * (1 - v + std::log(v)))
      return std::log(d * v) + std::log(1 - random.uniform()) / alpha;
  }
}

double draw_beta(KeyedRandom& random, double alpha) {
  const double x = log_gamma_number(random, alpha);
  const double y = log_gamma_number(random, alpha);
  return 1 / (1 + std::exp(y - x));
}

MixDraw draw_mix(const MixOptions& options, uint64_t seed, int64_t pass, int64_t logical_rank) {
  MixDraw draw;
  if (!options.on()) return draw;
  KeyedRandom random(seed, Purpose::mixing, static_cast<uint64_t>(pass), static_cast<uint64_t>(logical_rank));
  const bool coin = random.chance(0.5);
  draw.cut = options.cutmix > 0 && (options.mixup == 0 || coin);
  draw.y = random.uniform();
  draw.x = random.uniform();
  draw.share = draw_beta(random, draw.cut ? options.cutmix : options.mixup);
  return draw;
}

MixedBatch mix_batch(const MixDraw& draw, const at::Tensor& images, const at::Tensor& targets, bool masks) {
  const auto partners = [n = images.size(0)](const at::Tensor& tensor) {  // keeps the memory format, unlike roll
    return at::cat({tensor.slice(0, n - 1, n), tensor.slice(0, 0, n - 1)});
  };
  if (images.size(0) == 1 || draw.share == 1) return {images, at::cat({targets, targets}), 1};
  if (!draw.cut)
    return {images * draw.share + partners(images) * (1 - draw.share), at::cat({targets, partners(targets)}),
            draw.share};
  const double side = std::sqrt(1 - draw.share);
  const auto stretch = [&](double centre, int64_t length) {
    const auto edge = [&](double place) {
      return std::clamp(static_cast<int64_t>(std::floor(place * static_cast<double>(length) + 0.5)), int64_t{0},
                        length);
    };
    return std::pair{edge(centre - side / 2), edge(centre + side / 2)};
  };
  const auto [top, bottom] = stretch(draw.y, images.size(2));
  const auto [left, right] = stretch(draw.x, images.size(3));
  const auto rectangle = [&, top = top, bottom = bottom, left = left, right = right](const at::Tensor& tensor) {
    return tensor.slice(2, top, bottom).slice(3, left, right);
  };
  const auto cut = [&](const at::Tensor& tensor) {
    at::Tensor mixed = tensor.clone();
    rectangle(mixed).copy_(partners(rectangle(tensor)));
    return mixed;
  };
  if (masks) {
    const at::Tensor mixed = cut(targets);
    return {cut(images), at::cat({mixed, mixed}), 1};
  }
  const auto area = static_cast<double>((bottom - top) * (right - left));
  const auto whole = static_cast<double>(images.size(2) * images.size(3));
  return {cut(images), at::cat({targets, partners(targets)}), 1 - area / whole};
}

}  // namespace dtrain
