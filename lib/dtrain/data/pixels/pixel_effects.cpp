#include "dtrain/data/pixels/pixel_effects.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "dtrain/base/random.hpp"
#include "dtrain/data/pixels/placement.hpp"
#include "dtrain/data/pixels/weighted_rows.hpp"

// DTRAIN_VECTOR_CLONES comes from CMake's dtrain_vector_code(). The functions of one number below use only arithmetic,
// so that loops over them are vectorised and give the same bits with any C library.

namespace dtrain {

namespace {

// Base-2 logarithm of a number in (0, 2), within 2e-7. The mantissa m is brought to [0.7, 1.4], where
// ln m = 2·artanh((m − 1) ÷ (m + 1)).
[[gnu::always_inline]] inline float log2_of(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  const int32_t from_half = bits - 0x3F3504F3;  // √½
  const int32_t exponent = from_half >> 23;
  const auto m = std::bit_cast<float>((from_half & 0x007FFFFF) + 0x3F3504F3);
  const float s = (m - 1) / (m + 1);
  const float s2 = s * s;
  const float ln = 2 * s * (1 + s2 * (1.0F / 3 + s2 * (1.0F / 5 + s2 * (1.0F / 7 + s2 * (1.0F / 9)))));
  return static_cast<float>(exponent) + ln * 1.44269504F;
}

// 2 to the power of a number in [-126, 1], with a relative error within 2e-7.
[[gnu::always_inline]] inline float exp2_of(float value) {
  const auto whole = static_cast<int32_t>(value - 0.5F);  // rounds towards 0: the nearest whole number, at most 0
  const float x = (value - static_cast<float>(whole)) * 0.693147181F;
  const float e = 1 + x * (1 + x * (1.0F / 2 + x * (1.0F / 6 + x * (1.0F / 24 + x * (1.0F / 120 + x * (1.0F / 720))))));
  return e * std::bit_cast<float>((whole + 127) << 23);
}

// sin(2π·turns) for turns in [-¼, ¼], within 4e-6.
[[gnu::always_inline]] inline float sine_of(float turns) {
  const float x = turns * 6.28318531F;
  const float x2 = x * x;
  return x * (1 + x2 * (-1.0F / 6 + x2 * (1.0F / 120 + x2 * (-1.0F / 5040 + x2 * (1.0F / 362880)))));
}

[[gnu::always_inline]] inline float clamped(float value) { return std::min(std::max(value, 0.0F), 1.0F); }

DTRAIN_VECTOR_CLONES
void raise(float* pixels, int64_t count, float gamma) {
  for (int64_t i = 0; i < count; ++i) {
    const float power = std::max(gamma * log2_of(std::max(pixels[i], 1e-30F)), -126.0F);
    pixels[i] = std::min(exp2_of(power), pixels[i] * 1e30F);  // black stays black, without a branch
  }
}

// Box and Muller's method: radii from the first half of the words, angles from the second; each pair gives two numbers.
DTRAIN_VECTOR_CLONES
void add_normals(const uint32_t* words, int64_t pairs, float sigma, float* __restrict first, float* __restrict second) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float share = static_cast<float>(static_cast<int32_t>((words[i] >> 8) + 1)) * 0x1.0p-24F;  // (0, 1]
    const float turns = static_cast<float>(static_cast<int32_t>(words[pairs + i] >> 8)) * 0x1.0p-24F - 0.5F;
    const float radius = sigma * std::sqrt(-1.38629436F * log2_of(share));  // √(−2 ln u)
    const float far = std::abs(turns);
    const float folded = far > 0.25F ? 0.5F - far : far;
    const float cosine = sine_of(0.25F - far);
    const float sine = std::copysign(sine_of(folded), turns);
    first[i] = clamped(first[i] + radius * cosine);
    second[i] = clamped(second[i] + radius * sine);
  }
}

DTRAIN_VECTOR_CLONES
void weighted_sum(const float* from, int64_t stride, const float* weights, int64_t taps, int64_t length, float* out) {
  add_rows(from, stride, weights, taps, length, out);
}

std::vector<float> gaussian(float sigma) {
  const auto radius = static_cast<int64_t>(std::ceil(3 * sigma));
  std::vector<float> weights;
  double sum = 0;
  for (int64_t i = -radius; i <= radius; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(sigma);
    weights.push_back(static_cast<float>(std::exp(-0.5 * x * x)));
    sum += static_cast<double>(weights.back());
  }
  for (float& weight : weights) weight = static_cast<float>(static_cast<double>(weight) / sum);
  return weights;
}

// As torchvision's adjust_brightness, clamped to [0, 1].
void adjust_brightness(std::vector<float>& pixels, float factor) {
  for (float& value : pixels) value = std::clamp(value * factor, 0.0F, 1.0F);
}

// As torchvision's adjust_contrast: away from or towards the mean grey, clamped to [0, 1].
void adjust_contrast(std::vector<float>& pixels, size_t channels, float factor) {
  double sum = 0;
  for (size_t i = 0; i < pixels.size(); i += channels)
    sum += static_cast<double>(channels == 3 ? luma(&pixels[i]) : pixels[i]);
  const auto mean = static_cast<float>(sum / (static_cast<double>(pixels.size()) / static_cast<double>(channels)));
  for (float& value : pixels) value = std::clamp(factor * value + (1 - factor) * mean, 0.0F, 1.0F);
}

// The same for each channel by itself.
void adjust_contrast_by_channel(const PixelField& picture, float factor) {
  const auto channels = static_cast<size_t>(picture.channels);
  std::vector<float> plane(picture.pixels.size() / channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < plane.size(); ++i) plane[i] = picture.pixels[i * channels + c];
    adjust_contrast(plane, 1, factor);
    for (size_t i = 0; i < plane.size(); ++i) picture.pixels[i * channels + c] = plane[i];
  }
}

// Fills the pixels whose centres are in the rectangle.
void cut_out(const AugmentDraw& draw, const PixelField& picture, std::span<const float> fill) {
  const auto stretch = [&](double centre, int64_t side) {
    const auto edge = [&](double place) {
      return std::clamp(static_cast<int64_t>(std::ceil(place * static_cast<double>(side) - 0.5)), int64_t{0}, side);
    };
    return std::pair{edge(centre - draw.cutout / 2), edge(centre + draw.cutout / 2)};
  };
  const auto [top, bottom] = stretch(draw.cutout_y, picture.height);
  const auto [left, right] = stretch(draw.cutout_x, picture.width);
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = left; x < right; ++x)
      for (int64_t c = 0; c < picture.channels; ++c)
        picture.pixels[static_cast<size_t>((y * picture.width + x) * picture.channels + c)] =
            fill[static_cast<size_t>(c)];
}

}  // namespace

void blur_picture(const PixelField& picture, float sigma) {
  const std::vector<float> weights = gaussian(sigma);
  const auto taps = static_cast<int64_t>(weights.size());
  const int64_t radius = taps / 2;
  const int64_t channels = picture.channels;
  const int64_t length = picture.width * channels;
  // First along the rows, reading a copy of each that is extended at both edges, into a picture that is extended at top
  // and bottom; then along its columns.
  std::vector<float> longer(static_cast<size_t>(length + 2 * radius * channels));
  std::vector<float> higher(static_cast<size_t>((picture.height + 2 * radius) * length));
  for (int64_t y = 0; y < picture.height; ++y) {
    const float* row = picture.pixels.data() + y * length;
    for (int64_t i = 0; i < radius * channels; ++i) {
      longer[static_cast<size_t>(i)] = row[i % channels];
      longer[static_cast<size_t>(radius * channels + length + i)] = row[length - channels + i % channels];
    }
    std::copy_n(row, length, longer.begin() + radius * channels);
    weighted_sum(longer.data(), channels, weights.data(), taps, length, higher.data() + (y + radius) * length);
  }
  const float* first = higher.data() + radius * length;
  const float* last = first + (picture.height - 1) * length;
  for (int64_t y = 0; y < radius; ++y) {
    std::copy_n(first, length, higher.data() + y * length);
    std::copy_n(last, length, higher.data() + (y + radius + picture.height) * length);
  }
  for (int64_t y = 0; y < picture.height; ++y)
    weighted_sum(higher.data() + y * length, length, weights.data(), taps, length, picture.pixels.data() + y * length);
}

void adjust_gamma(std::span<float> pixels, float gamma) {
  raise(pixels.data(), static_cast<int64_t>(pixels.size()), gamma);
}

void add_noise(std::span<float> pixels, float sigma, uint64_t key) {
  constexpr size_t kPairs = 1024;
  KeyedRandom random(key, Purpose::augmentation_field, 1);
  std::vector<uint32_t> words(2 * kPairs);
  for (size_t at = 0; at < pixels.size(); at += 2 * kPairs) {
    const size_t count = std::min(2 * kPairs, pixels.size() - at);
    random.fill(words);
    if (count == words.size()) {
      add_normals(words.data(), kPairs, sigma, &pixels[at], &pixels[at + kPairs]);
      continue;
    }
    std::vector<float> last(words.size(), 0);  // the rest, in a buffer of full size
    std::copy_n(pixels.begin() + static_cast<std::ptrdiff_t>(at), count, last.begin());
    add_normals(words.data(), kPairs, sigma, last.data(), last.data() + kPairs);
    std::copy_n(last.begin(), count, pixels.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void apply_effects(const AugmentDraw& draw, const PixelField& picture, std::span<const float> fill) {
  if (draw.blur > 0) blur_picture(picture, draw.blur);
  if (draw.brightness != 1) adjust_brightness(picture.pixels, draw.brightness);
  if (draw.contrast != 1 && picture.stacked) adjust_contrast_by_channel(picture, draw.contrast);
  if (draw.contrast != 1 && !picture.stacked)
    adjust_contrast(picture.pixels, static_cast<size_t>(picture.channels), draw.contrast);
  if (draw.gamma != 1) adjust_gamma(picture.pixels, draw.gamma);
  if (draw.noise > 0) add_noise(picture.pixels, draw.noise, draw.noise_key);
  if (draw.cutout > 0) cut_out(draw, picture, fill);
}

}  // namespace dtrain
