#pragma once
#include <cstdint>
#include <span>

namespace dtrain {

// The loops behind Optimizer: each reads and writes every float once. Every element's result depends on that element
// alone and is rounded after each operation, so that the bits are those of any vector width and of any cut into ranges.

/// What an update reads and changes: `count` floats behind each pointer, none overlapping another.
struct UpdateSlices {
  int64_t count = 0;
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* first = nullptr;   ///< momentum_buffer, exp_avg, sum or square_avg
  float* second = nullptr;  ///< exp_avg_sq or acc_delta
};

/// Scalars of an update, rounded to float32 once. g below is scale · gradient + decay · w.
struct UpdateFactors {
  float scale = 1;            ///< of every gradient, by clipping
  float decay = 0;            ///< coupled weight decay
  float keep = 1;             ///< w is multiplied by this first: adamw's decoupled weight decay
  float rate = 0;             ///< learning rate; adam: divided by 1 − beta1^updates
  float momentum = 0;         ///< sgd
  float mean_in = 0;          ///< adam: 1 − beta1
  float square_keep = 0;      ///< adam: beta2, adadelta: rho
  float square_in = 0;        ///< 1 − square_keep
  float root_correction = 1;  ///< adam: √(1 − beta2^updates)
  float eps = 0;
};

// Each returns false when a gradient or an updated weight is not finite; all elements are updated all the same.

/// w ← w − rate·g
bool update_sgd(const UpdateSlices& slices, const UpdateFactors& factors);
/// u ← momentum·u + g, w ← w − rate·u; nesterov: w ← w − rate·(g + momentum·u). The rate stands outside of u, so a
/// change of rate needs no momentum correction.
bool update_momentum(const UpdateSlices& slices, const UpdateFactors& factors);
bool update_nesterov(const UpdateSlices& slices, const UpdateFactors& factors);
/// m ← m + mean_in·(g − m), v ← square_keep·v + square_in·g², w ← keep·w − rate·m ÷ (√v ÷ root_correction + eps)
bool update_adam(const UpdateSlices& slices, const UpdateFactors& factors);
/// s ← s + g², w ← w − rate·g ÷ (√s + eps)
bool update_adagrad(const UpdateSlices& slices, const UpdateFactors& factors);
/// s ← square_keep·s + square_in·g², d = √(a + eps) ÷ √(s + eps) · g, a ← square_keep·a + square_in·d², w ← w − rate·d
bool update_adadelta(const UpdateSlices& slices, const UpdateFactors& factors);

/// Σx² in double: what clipping by the global norm needs. Element i is added to lane i mod 16 and the lanes are folded
/// by a fixed tree, so that the bits are those of any vector width. Not finite exactly when an element is not.
double sum_of_squares(std::span<const float> values);

}  // namespace dtrain
