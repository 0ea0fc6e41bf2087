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
  float* second = nullptr;  ///< exp_avg_sq or acc_delta, rmsprop: momentum_buffer
  /// Of a rule with kTrust: what FlatMath::measure() has left for these elements; null: its ratio is 1.
  const double* sums = nullptr;
};

/// Scalars of an update. g below is scale · gradient + decay · w.
template <typename Real>
struct FactorsOf {
  Real scale = 1;            ///< of every gradient, by clipping
  Real decay = 0;            ///< coupled weight decay
  Real keep = 1;             ///< w is multiplied by this first: decoupled weight decay
  Real weight_decay = 0;     ///< lamb: share of w in its direction
  Real rate = 0;             ///< learning rate; adam: divided by 1 − beta1^updates
  Real momentum = 0;         ///< sgd, lars, rmsprop
  Real mean_in = 0;          ///< adam, lamb: 1 − beta1, lion: 1 − beta2
  Real direction_in = 0;     ///< lion: 1 − beta1
  Real square_keep = 0;      ///< adam, lamb: beta2, adadelta, rmsprop: rho
  Real square_in = 0;        ///< 1 − square_keep
  Real mean_correction = 1;  ///< lamb: 1 − beta1^updates
  Real root_correction = 1;  ///< adam, lamb: √(1 − beta2^updates)
  Real trust = 0;            ///< lars: the trust coefficient
  Real eps = 0;
};

/// Rounded to float32 once.
using UpdateFactors = FactorsOf<float>;

enum class UpdateRule {
  sgd,
  momentum,
  nesterov,
  adam,
  adagrad,
  adadelta,
  rmsprop,
  rmsprop_momentum,
  lion,
  lars,
  lamb,
  average
};

// A rule changes a weight and up to two values of state, `kStates` of them, by a gradient. With kTrust the step also
// depends on the norms of whole tensors, and an update has two passes: measure() for each element, which may change the
// state and returns what the norm is taken of, then the rule itself with the ratio that trust_ratio() makes of the two
// norms. constexpr is what lets nvcc compile a rule for the device too; `Real` is float, and double in tests.

/// w ← w − rate·g
template <typename Real>
struct SgdRule {
  static constexpr int kStates = 0;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real&, Real&) const {
    const Real g = f.scale * gradient + f.decay * w;
    w -= f.rate * g;
  }
};

/// u ← momentum·u + g, w ← w − rate·u. The rate stands outside of u, so a change of rate needs no momentum correction.
template <typename Real>
struct MomentumRule {
  static constexpr int kStates = 1;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& u, Real&) const {
    const Real g = f.scale * gradient + f.decay * w;
    u = f.momentum * u + g;
    w -= f.rate * u;
  }
};

/// u ← momentum·u + g, w ← w − rate·(g + momentum·u)
template <typename Real>
struct NesterovRule {
  static constexpr int kStates = 1;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& u, Real&) const {
    const Real g = f.scale * gradient + f.decay * w;
    u = f.momentum * u + g;
    w -= f.rate * (g + f.momentum * u);
  }
};

/// m ← m + mean_in·(g − m), v ← square_keep·v + square_in·g², w ← keep·w − rate·m ÷ (√v ÷ root_correction + eps)
template <typename Real>
struct AdamRule {
  static constexpr int kStates = 2;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& m, Real& v) const {
    const Real g = f.scale * gradient + f.decay * w;
    m += f.mean_in * (g - m);
    v = f.square_keep * v + f.square_in * g * g;
    w = f.keep * w - f.rate * m / (std::sqrt(v) / f.root_correction + f.eps);
  }
};

/// s ← s + g², w ← w − rate·g ÷ (√s + eps)
template <typename Real>
struct AdagradRule {
  static constexpr int kStates = 1;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& s, Real&) const {
    const Real g = f.scale * gradient + f.decay * w;
    s += g * g;
    w -= f.rate * g / (std::sqrt(s) + f.eps);
  }
};

/// s ← square_keep·s + square_in·g², d = √(a + eps) ÷ √(s + eps) · g, a ← square_keep·a + square_in·d², w ← w − rate·d
template <typename Real>
struct AdadeltaRule {
  static constexpr int kStates = 2;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& s, Real& a) const {
    const Real g = f.scale * gradient + f.decay * w;
    s = f.square_keep * s + f.square_in * g * g;
    const Real d = std::sqrt(a + f.eps) / std::sqrt(s + f.eps) * g;
    a = f.square_keep * a + f.square_in * d * d;
    w -= f.rate * d;
  }
};

/// s ← square_keep·s + square_in·g², w ← w − rate·g ÷ (√s + eps)
template <typename Real>
struct RmspropRule {
  static constexpr int kStates = 1;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& s, Real&) const {
    const Real g = f.scale * gradient + f.decay * w;
    s = f.square_keep * s + f.square_in * g * g;
    w -= f.rate * g / (std::sqrt(s) + f.eps);
  }
};

/// s ← square_keep·s + square_in·g², u ← momentum·u + g ÷ (√s + eps), w ← w − rate·u
template <typename Real>
struct RmspropMomentumRule {
  static constexpr int kStates = 2;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& s, Real& u) const {
    const Real g = f.scale * gradient + f.decay * w;
    s = f.square_keep * s + f.square_in * g * g;
    u = f.momentum * u + g / (std::sqrt(s) + f.eps);
    w -= f.rate * u;
  }
};

/// c ← m + direction_in·(g − m), w ← keep·w − rate·sign(c), m ← m + mean_in·(g − m); sign(0) = 0, and not a number
/// stays what it is.
template <typename Real>
struct LionRule {
  static constexpr int kStates = 1;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real gradient, Real& w, Real& m, Real&) const {
    const Real g = f.scale * gradient + f.decay * w;
    const Real c = m + f.direction_in * (g - m);
    w = f.keep * w - f.rate * (c > 0 ? 1 : c < 0 ? -1 : c);
    m += f.mean_in * (g - m);
  }
};

/// d = scale·gradient, u ← momentum·u + q·(d + decay·w), w ← w − rate·u; q = trust·‖w‖ ÷ (‖d‖ + decay·‖w‖ + eps)
template <typename Real>
struct LarsRule {
  static constexpr int kStates = 1;
  static constexpr bool kTrust = true;
  FactorsOf<Real> f;
  constexpr Real measure(Real gradient, Real, Real&, Real&) const { return f.scale * gradient; }
  constexpr Real ratio(Real weights, Real gradients) const {
    return f.trust * weights / (gradients + f.decay * weights + f.eps);
  }
  constexpr void operator()(Real gradient, Real& w, Real& u, Real&, Real q) const {
    u = f.momentum * u + q * (f.scale * gradient + f.decay * w);
    w -= f.rate * u;
  }
};

/// g = scale·gradient, m ← m + mean_in·(g − m), v ← square_keep·v + square_in·g², and with
/// d = m ÷ mean_correction ÷ (√v ÷ root_correction + eps) + weight_decay·w: w ← w − rate·q·d; q = ‖w‖ ÷ ‖d‖
template <typename Real>
struct LambRule {
  static constexpr int kStates = 2;
  static constexpr bool kTrust = true;
  FactorsOf<Real> f;
  constexpr Real measure(Real gradient, Real w, Real& m, Real& v) const {
    const Real g = f.scale * gradient;
    m += f.mean_in * (g - m);
    v = f.square_keep * v + f.square_in * g * g;
    return direction(w, m, v);
  }
  constexpr Real ratio(Real weights, Real directions) const { return weights / directions; }
  constexpr void operator()(Real, Real& w, Real& m, Real& v, Real q) const { w -= f.rate * q * direction(w, m, v); }
  constexpr Real direction(Real w, Real m, Real v) const {
    return m / f.mean_correction / (std::sqrt(v) / f.root_correction + f.eps) + f.weight_decay * w;
  }
};

/// w ← w + rate·(gradient − w): a moving average, whose "gradients" are what it follows.
template <typename Real>
struct AverageRule {
  static constexpr int kStates = 0;
  static constexpr bool kTrust = false;
  FactorsOf<Real> f;
  constexpr void operator()(Real followed, Real& w, Real&, Real&) const { w += f.rate * (followed - w); }
};

/// The ratio of a rule with kTrust, from the sums of squares of a tensor's weights and of what measure() returned; 1
/// where one of them is zero.
template <typename Rule>
constexpr auto trust_ratio(const Rule& rule, double weights, double measured) -> decltype(rule.f.rate) {
  using Real = decltype(rule.f.rate);
  if (!(weights > 0) || !(measured > 0)) return 1;
  return rule.ratio(static_cast<Real>(std::sqrt(weights)), static_cast<Real>(std::sqrt(measured)));
}

/// Calls `use` with the rule of that name.
template <typename Real, typename Use>
[[gnu::always_inline]] inline void with_rule(UpdateRule rule, const FactorsOf<Real>& factors, Use&& use) {
  switch (rule) {
    case UpdateRule::sgd:
      return use(SgdRule<Real>{factors});
    case UpdateRule::momentum:
      return use(MomentumRule<Real>{factors});
    case UpdateRule::nesterov:
      return use(NesterovRule<Real>{factors});
    case UpdateRule::adam:
      return use(AdamRule<Real>{factors});
    case UpdateRule::adagrad:
      return use(AdagradRule<Real>{factors});
    case UpdateRule::adadelta:
      return use(AdadeltaRule<Real>{factors});
    case UpdateRule::rmsprop:
      return use(RmspropRule<Real>{factors});
    case UpdateRule::rmsprop_momentum:
      return use(RmspropMomentumRule<Real>{factors});
    case UpdateRule::lion:
      return use(LionRule<Real>{factors});
    case UpdateRule::lars:
      return use(LarsRule<Real>{factors});
    case UpdateRule::lamb:
      return use(LambRule<Real>{factors});
    case UpdateRule::average:
      return use(AverageRule<Real>{factors});
  }
}

}  // namespace dtrain
