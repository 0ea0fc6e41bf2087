#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

#include "dtrain/device/flat_math.hpp"

// DTRAIN_VECTOR_CLONES comes from CMake's dtrain_vector_code(): an attribute that compiles a function once for each
// vector width; the one for this processor is chosen when the program starts. Empty if the compiler cannot do that.

namespace dtrain {
namespace {

constexpr int64_t kPiece = 4096;  // floats; a few pieces fit into a core's L1 cache

// out may be a or b.
DTRAIN_VECTOR_CLONES
void add_pair(const float* a, const float* b, float* out, int64_t numel) {
#pragma GCC ivdep
  for (int64_t i = 0; i < numel; ++i) out[i] = a[i] + b[i];
}

// Bit 31 is set exactly when `value` is infinite or NaN: only an exponent of all ones carries over into that bit.
// Or-ing these words tests a whole range without a branch.
inline uint32_t not_finite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7F800000U) + 0x00800000U; }

template <typename Rule>
[[gnu::always_inline]] inline uint32_t run_rule(const Rule given, const UpdateSlices& slices) {
  const Rule rule = given;
  float* w = slices.weights;
  float* a = slices.first;
  float* b = slices.second;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  [[maybe_unused]] float ratio = 1;
  if constexpr (Rule::kTrust)
    if (slices.sums != nullptr) ratio = trust_ratio(rule, slices.sums[0], slices.sums[1]);
  for (int64_t i = 0; i < slices.count; ++i) {
    float none = 0;
    float weight = w[i];
    const float gradient = gradients[i];
    if constexpr (Rule::kTrust) {
      rule(gradient, weight, a[i], Rule::kStates == 1 ? none : b[i], ratio);
    } else if constexpr (Rule::kStates == 0) {
      rule(gradient, weight, none, none);
    } else if constexpr (Rule::kStates == 1) {
      rule(gradient, weight, a[i], none);
    } else {
      rule(gradient, weight, a[i], b[i]);
    }
    w[i] = weight;
    seen |= not_finite(gradient) | not_finite(weight);
  }
  return seen;
}

DTRAIN_VECTOR_CLONES
uint32_t run_update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors) {
  uint32_t seen = 0;
  with_rule(
      rule, factors, [&](const auto& chosen) __attribute__((always_inline)) { seen = run_rule(chosen, slices); });
  return seen;
}

constexpr int64_t kLanes = 16;

// The lanes' sum, in a fixed tree.
inline double sum_of_lanes(std::array<double, kLanes>& lanes) {
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

// Element i goes to lane i mod 16, as in sum_of_squares().
template <typename Rule>
[[gnu::always_inline]] inline void run_measure(const Rule given, const UpdateSlices& slices, double* sums) {
  const Rule rule = given;
  const float* w = slices.weights;
  const float* gradients = slices.gradients;
  float* a = slices.first;
  float* b = slices.second;
  std::array<double, kLanes> weights{}, measured{};
  const auto take = [&](int64_t i, size_t lane) __attribute__((always_inline)) {
    float none = 0;
    const double weight = w[i];
    const double found = rule.measure(gradients[i], w[i], a[i], Rule::kStates == 1 ? none : b[i]);
    weights[lane] += weight * weight;
    measured[lane] += found * found;
  };
  int64_t i = 0;
  for (; i + kLanes <= slices.count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) take(i + lane, static_cast<size_t>(lane));
  for (size_t lane = 0; i < slices.count; ++i, ++lane) take(i, lane);
  sums[0] = sum_of_lanes(weights);
  sums[1] = sum_of_lanes(measured);
}

DTRAIN_VECTOR_CLONES
void measure_all(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums) {
  with_rule(
      rule, factors, [&](const auto& chosen) __attribute__((always_inline)) {
        if constexpr (std::decay_t<decltype(chosen)>::kTrust) run_measure(chosen, slices, sums);
      });
}

// Element i is added to lane i mod 16, and the lanes are added up in a fixed tree: the same bits at any vector width.
DTRAIN_VECTOR_CLONES
double sum_of_squares(const float* values, int64_t numel) {
  std::array<double, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= numel; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[static_cast<size_t>(lane)] += value * value;
    }
  for (size_t lane = 0; i < numel; ++i, ++lane) {
    const double value = values[i];
    lanes[lane] += value * value;
  }
  return sum_of_lanes(lanes);
}

// From kFrom channels of Pixel to kTo channels.
template <typename Pixel, int kFrom, int kTo>
[[gnu::always_inline]] inline float* finish_picture(const PictureForm& form, const RawPicture& picture, float* out) {
  const auto* pixels = static_cast<const Pixel*>(picture.pixels);
  for (int64_t y = 0; y < form.height; ++y) {
    const Pixel* pixel = pixels + (picture.walk.start + y * picture.walk.down) * kFrom;
    for (int64_t x = 0; x < form.width; ++x) {
      for (int c = 0; c < kTo; ++c)
        *out++ = normalised(pixel_value(pixel[kFrom == 1 ? 0 : c]), form.mean[c], form.factor[c]);
      pixel += picture.walk.right * kFrom;
    }
  }
  return out;
}

// As many channels as the form has, of a picture that is neither grey nor of three.
template <typename Pixel>
[[gnu::always_inline]] inline float* finish_channels(const PictureForm& form, const RawPicture& picture, float* out) {
  const auto* pixels = static_cast<const Pixel*>(picture.pixels);
  for (int64_t y = 0; y < form.height; ++y)
    for (int64_t x = 0; x < form.width; ++x) {
      const int64_t source = picture.walk.start + y * picture.walk.down + x * picture.walk.right;
      const Pixel* pixel = pixels + source * picture.channels;
      for (int64_t c = 0; c < form.channels; ++c)
        *out++ = normalised(pixel_value(pixel[picture.channels == 1 ? 0 : c]), form.mean[c], form.factor[c]);
    }
  return out;
}

// Grey bytes to three channels, by a table of the 256 results. Four floats are copied at a time, which is faster than
// three; the next pixel overwrites the fourth.
float* finish_grey_bytes(const PictureForm& form, const RawPicture& picture, float* out) {
  float table[256][4] = {};
  for (int byte = 0; byte < 256; ++byte)
    for (int c = 0; c < 3; ++c)
      table[byte][c] = normalised(pixel_value(static_cast<uint8_t>(byte)), form.mean[c], form.factor[c]);
  const auto* pixels = static_cast<const uint8_t*>(picture.pixels);
  for (int64_t y = 0; y < form.height; ++y) {
    const uint8_t* pixel = pixels + picture.walk.start + y * picture.walk.down;
    for (int64_t x = 0; x + 1 < form.width; ++x, pixel += picture.walk.right, out += 3)
      std::memcpy(out, table[*pixel], 4 * sizeof(float));
    std::memcpy(out, table[*pixel], 3 * sizeof(float));
    out += 3;
  }
  return out;
}

// A row of grey bytes to one channel, from left to right or from right to left.
DTRAIN_VECTOR_CLONES
void finish_grey_row(const uint8_t* pixel, bool forward, int64_t width, float mean, float factor,
                     float* __restrict out) {
  if (forward) {
    for (int64_t x = 0; x < width; ++x) out[x] = normalised(pixel_value(pixel[x]), mean, factor);
  } else {
    for (int64_t x = 0; x < width; ++x) out[x] = normalised(pixel_value(pixel[-x]), mean, factor);
  }
}

float* finish_grey_rows(const PictureForm& form, const RawPicture& picture, float* out) {
  const auto* pixels = static_cast<const uint8_t*>(picture.pixels) + picture.walk.start;
  for (int64_t y = 0; y < form.height; ++y, out += form.width)
    finish_grey_row(pixels + y * picture.walk.down, picture.walk.right == 1, form.width, form.mean[0], form.factor[0],
                    out);
  return out;
}

template <typename Pixel>
[[gnu::always_inline]] inline float* finish_any(const PictureForm& form, const RawPicture& picture, float* out) {
  if (form.channels != 1 && form.channels != 3) return finish_channels<Pixel>(form, picture, out);
  if (picture.channels == 3) return finish_picture<Pixel, 3, 3>(form, picture, out);
  if constexpr (sizeof(Pixel) == 1) {
    if (form.channels == 3) return finish_grey_bytes(form, picture, out);
    if (std::abs(picture.walk.right) == 1) return finish_grey_rows(form, picture, out);
  }
  if (form.channels == 3) return finish_picture<Pixel, 1, 3>(form, picture, out);
  return finish_picture<Pixel, 1, 1>(form, picture, out);
}

class HostMath final : public FlatMath {
 public:
  void add(float* into, const float* from, int64_t numel) const override { add_pair(into, from, into, numel); }

  // Piece by piece, so that partial sums stay in the cache however many inputs there are.
  void sum(std::span<const int> program, int depth, const std::vector<const float*>& inputs,
           const std::vector<float*>& outputs, int64_t numel) const override {
    const auto scratch = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(depth * kPiece));
    std::vector<const float*> stack(static_cast<size_t>(depth));
    for (int64_t at = 0; at < numel; at += kPiece) {
      const int64_t count = std::min(kPiece, numel - at);
      size_t top = 0;  // values on the stack
      for (size_t i = 0; i < program.size(); ++i) {
        if (program[i] != kAdd) {
          stack[top++] = inputs[static_cast<size_t>(program[i])] + at;
          continue;
        }
        --top;
        float* out =
            i + 1 == program.size() ? outputs.front() + at : scratch.get() + static_cast<int64_t>(top - 1) * kPiece;
        add_pair(stack[top - 1], stack[top], out, count);
        stack[top - 1] = out;
      }
      for (float* output : outputs)
        if (output + at != stack[0]) std::memcpy(output + at, stack[0], static_cast<size_t>(count) * sizeof(float));
    }
  }

  void update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
              int32_t* not_finite) const override {
    if ((run_update(rule, slices, factors) & 0x80000000U) != 0) *not_finite = 1;
  }

  void measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums) const override {
    measure_all(rule, slices, factors, sums);
  }

  std::vector<double> sums_of_squares(const float* values, const std::vector<Range>& ranges) const override {
    std::vector<double> sums;
    for (const Range& range : ranges) sums.push_back(sum_of_squares(values + range.begin, range.size()));
    return sums;
  }

  void finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out) const override {
    for (const RawPicture* picture = pictures; picture < pictures + count; ++picture)
      out = picture->bytes != 0 ? finish_any<uint8_t>(form, *picture, out) : finish_any<float>(form, *picture, out);
  }

  void finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes,
                    float* out) const override {
    for (const RawPicture* mask = masks; mask < masks + count; ++mask)
      for (int64_t k = 1; k <= classes; ++k)
        for (int64_t y = 0; y < form.height; ++y) {
          const uint8_t* pixel = static_cast<const uint8_t*>(mask->pixels) + mask->walk.start + y * mask->walk.down;
          for (int64_t x = 0; x < form.width; ++x, pixel += mask->walk.right) *out++ = *pixel == k ? 1.0F : 0.0F;
        }
  }
};

}  // namespace

const FlatMath& host_math() {
  static const HostMath math;
  return math;
}

}  // namespace dtrain
