#pragma once
#include <cmath>
#include <cstdint>
#include <utility>

namespace dtrain {

// The arithmetic of every optimizer, one element at a time, for the CPU's loop and the GPU's kernel alike. Each
// operation is rounded to float32 on its own (both compilers are told not to fuse products with sums), so that an
// element's bits do not depend on vector width, division into ranges or kind of device.

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
  float keep = 1;             ///< w is multiplied by this first: decoupled weight decay
  float rate = 0;             ///< learning rate; adam: divided by 1 − beta1^updates
  float momentum = 0;         ///< sgd
  float mean_in = 0;          ///< adam: 1 − beta1, lion: 1 − beta2
  float direction_in = 0;     ///< lion: 1 − beta1
  float square_keep = 0;      ///< adam: beta2, adadelta: rho
  float square_in = 0;        ///< 1 − square_keep
  float root_correction = 1;  ///< adam: √(1 − beta2^updates)
  float eps = 0;
};

enum class UpdateRule { sgd, momentum, nesterov, adam, adagrad, adadelta, lion };

// A rule changes a weight and up to two values of state, `kStates` of them, by a gradient. constexpr is what lets nvcc
// compile it for the device too.

/// w ← w − rate·g
struct SgdRule {
  static constexpr int kStates = 0;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float&, float&) const {
    const float g = f.scale * gradient + f.decay * w;
    w -= f.rate * g;
  }
};

/// u ← momentum·u + g, w ← w − rate·u. The rate stands outside of u, so a change of rate needs no momentum correction.
struct MomentumRule {
  static constexpr int kStates = 1;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float& u, float&) const {
    const float g = f.scale * gradient + f.decay * w;
    u = f.momentum * u + g;
    w -= f.rate * u;
  }
};

/// u ← momentum·u + g, w ← w − rate·(g + momentum·u)
struct NesterovRule {
  static constexpr int kStates = 1;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float& u, float&) const {
    const float g = f.scale * gradient + f.decay * w;
    u = f.momentum * u + g;
    w -= f.rate * (g + f.momentum * u);
  }
};

/// m ← m + mean_in·(g − m), v ← square_keep·v + square_in·g², w ← keep·w − rate·m ÷ (√v ÷ root_correction + eps)
struct AdamRule {
  static constexpr int kStates = 2;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float& m, float& v) const {
    const float g = f.scale * gradient + f.decay * w;
    m += f.mean_in * (g - m);
    v = f.square_keep * v + f.square_in * g * g;
    w = f.keep * w - f.rate * m / (std::sqrt(v) / f.root_correction + f.eps);
  }
};

/// s ← s + g², w ← w − rate·g ÷ (√s + eps)
struct AdagradRule {
  static constexpr int kStates = 1;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float& s, float&) const {
    const float g = f.scale * gradient + f.decay * w;
    s += g * g;
    w -= f.rate * g / (std::sqrt(s) + f.eps);
  }
};

/// s ← square_keep·s + square_in·g², d = √(a + eps) ÷ √(s + eps) · g, a ← square_keep·a + square_in·d², w ← w − rate·d
struct AdadeltaRule {
  static constexpr int kStates = 2;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float& s, float& a) const {
    const float g = f.scale * gradient + f.decay * w;
    s = f.square_keep * s + f.square_in * g * g;
    const float d = std::sqrt(a + f.eps) / std::sqrt(s + f.eps) * g;
    a = f.square_keep * a + f.square_in * d * d;
    w -= f.rate * d;
  }
};

/// c ← m + direction_in·(g − m), w ← keep·w − rate·sign(c), m ← m + mean_in·(g − m); sign(0) = 0, and not a number
/// stays what it is.
struct LionRule {
  static constexpr int kStates = 1;
  UpdateFactors f;
  constexpr void operator()(float gradient, float& w, float& m, float&) const {
    const float g = f.scale * gradient + f.decay * w;
    const float c = m + f.direction_in * (g - m);
    w = f.keep * w - f.rate * (c > 0 ? 1 : c < 0 ? -1 : c);
    m += f.mean_in * (g - m);
  }
};

/// Calls `use` with the rule of that name.
template <typename Use>
[[gnu::always_inline]] inline void with_rule(UpdateRule rule, const UpdateFactors& factors, Use&& use) {
  switch (rule) {
    case UpdateRule::sgd:
      return use(SgdRule{factors});
    case UpdateRule::momentum:
      return use(MomentumRule{factors});
    case UpdateRule::nesterov:
      return use(NesterovRule{factors});
    case UpdateRule::adam:
      return use(AdamRule{factors});
    case UpdateRule::adagrad:
      return use(AdagradRule{factors});
    case UpdateRule::adadelta:
      return use(AdadeltaRule{factors});
    case UpdateRule::lion:
      return use(LionRule{factors});
  }
}

}  // namespace dtrain
