#include "dtrain/optim/update_kernels.hpp"

#include <array>
#include <bit>
#include <cmath>

// DTRAIN_VECTOR_CLONES comes from CMakeLists.txt: the attribute that compiles a function once for each vector width and
// lets the processor choose when the program starts; nothing where the compiler cannot.

namespace dtrain {

namespace {

// Bit 31 is set exactly when `value` is infinite or not a number: only their exponent, all ones, carries over into it.
// Or-ing these words tests a whole range without a branch.
inline uint32_t not_finite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7F800000U) + 0x00800000U; }

inline bool all_finite(uint32_t seen) { return (seen & 0x80000000U) == 0; }

}  // namespace

DTRAIN_VECTOR_CLONES
bool update_sgd(const UpdateSlices& slices, const UpdateFactors& factors) {
  const UpdateFactors f = factors;
  float* w = slices.weights;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  for (int64_t i = 0; i < slices.count; ++i) {
    const float g = f.scale * gradients[i] + f.decay * w[i];
    w[i] -= f.rate * g;
    seen |= not_finite(gradients[i]) | not_finite(w[i]);
  }
  return all_finite(seen);
}

DTRAIN_VECTOR_CLONES
bool update_momentum(const UpdateSlices& slices, const UpdateFactors& factors) {
  const UpdateFactors f = factors;
  float* w = slices.weights;
  float* u = slices.first;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  for (int64_t i = 0; i < slices.count; ++i) {
    const float g = f.scale * gradients[i] + f.decay * w[i];
    u[i] = f.momentum * u[i] + g;
    w[i] -= f.rate * u[i];
    seen |= not_finite(gradients[i]) | not_finite(w[i]);
  }
  return all_finite(seen);
}

DTRAIN_VECTOR_CLONES
bool update_nesterov(const UpdateSlices& slices, const UpdateFactors& factors) {
  const UpdateFactors f = factors;
  float* w = slices.weights;
  float* u = slices.first;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  for (int64_t i = 0; i < slices.count; ++i) {
    const float g = f.scale * gradients[i] + f.decay * w[i];
    u[i] = f.momentum * u[i] + g;
    w[i] -= f.rate * (g + f.momentum * u[i]);
    seen |= not_finite(gradients[i]) | not_finite(w[i]);
  }
  return all_finite(seen);
}

DTRAIN_VECTOR_CLONES
bool update_adam(const UpdateSlices& slices, const UpdateFactors& factors) {
  const UpdateFactors f = factors;
  float* w = slices.weights;
  float* m = slices.first;
  float* v = slices.second;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  for (int64_t i = 0; i < slices.count; ++i) {
    const float g = f.scale * gradients[i] + f.decay * w[i];
    m[i] += f.mean_in * (g - m[i]);
    v[i] = f.square_keep * v[i] + f.square_in * g * g;
    w[i] = f.keep * w[i] - f.rate * m[i] / (std::sqrt(v[i]) / f.root_correction + f.eps);
    seen |= not_finite(gradients[i]) | not_finite(w[i]);
  }
  return all_finite(seen);
}

DTRAIN_VECTOR_CLONES
bool update_adagrad(const UpdateSlices& slices, const UpdateFactors& factors) {
  const UpdateFactors f = factors;
  float* w = slices.weights;
  float* s = slices.first;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  for (int64_t i = 0; i < slices.count; ++i) {
    const float g = f.scale * gradients[i] + f.decay * w[i];
    s[i] += g * g;
    w[i] -= f.rate * g / (std::sqrt(s[i]) + f.eps);
    seen |= not_finite(gradients[i]) | not_finite(w[i]);
  }
  return all_finite(seen);
}

DTRAIN_VECTOR_CLONES
bool update_adadelta(const UpdateSlices& slices, const UpdateFactors& factors) {
  const UpdateFactors f = factors;
  float* w = slices.weights;
  float* s = slices.first;
  float* a = slices.second;
  const float* gradients = slices.gradients;
  uint32_t seen = 0;
  for (int64_t i = 0; i < slices.count; ++i) {
    const float g = f.scale * gradients[i] + f.decay * w[i];
    s[i] = f.square_keep * s[i] + f.square_in * g * g;
    const float d = std::sqrt(a[i] + f.eps) / std::sqrt(s[i] + f.eps) * g;
    a[i] = f.square_keep * a[i] + f.square_in * d * d;
    w[i] -= f.rate * d;
    seen |= not_finite(gradients[i]) | not_finite(w[i]);
  }
  return all_finite(seen);
}

DTRAIN_VECTOR_CLONES
double sum_of_squares(std::span<const float> values) {
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  for (size_t lane = 0; i + lane < values.size(); ++lane) {
    const double value = values[i + lane];
    lanes[lane] += value * value;
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

}  // namespace dtrain
