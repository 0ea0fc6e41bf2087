#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/base/words.hpp"
#include "dtrain/optim/optimizer_kind.hpp"

namespace dtrain {

/// One of `optimizer.groups`: the parameters whose names match, except those of the groups before it.
struct ParameterGroup {
  std::string match;                   ///< `*` stands for any characters, dots included, `?` for one
  double rate = 1;                     ///< factor of the learning rate, above 0
  std::optional<double> weight_decay;  ///< instead of OptimizerOptions::weight_decay
  bool freeze = false;                 ///< they keep their values
};

/// `optimizer:` of the configuration. Defaults are PyTorch's where the key is not set; those that one optimizer has of
/// its own, and which reads what from momentum on, stand in its row: begin with optimizer_defaults().
struct OptimizerOptions {
  const OptimizerKind* kind = &default_optimizer();  ///< optimizer.name; never null
  double learning_rate = 0.001;                      ///< base rate, before scaling with the ranks
  double weight_decay = 0;                           ///< OptimizerKind::decoupled_decay says what it acts on
  bool decay_norms = true;           ///< weight decay acts on biases and the scales and shifts of normalisation, too
  double clip_norm = 0;              ///< largest norm of the whole gradient, which is scaled down to it; 0 = none
  double momentum = 0;               ///< share of the last update that is kept, [0, 1)
  bool nesterov = false;             ///< needs momentum > 0
  double beta1 = 0.9;                ///< as the optimizer's paper has it, [0, 1)
  double beta2 = 0.999;              ///< the same, [0, 1)
  double eps = 1e-8;                 ///< added to the denominator
  double rho = 0.9;                  ///< decay of the running mean of squared gradients, [0, 1)
  double trust_coefficient = 0.001;  ///< of the ratio of norms, above 0
  std::vector<ParameterGroup> groups = {};
  /// Length, in whole epochs or steps, after which frozen groups train too; 0 = never.
  Duration freeze_until{0, Duration::Unit::epochs};
};

/// Why a group that stays frozen sets what cannot act on it, a sentence; "" if none does.
std::string wrong_group(const OptimizerOptions& options);

/// The factors of update number `updates`, the first being 1, of parameters with this rate and weight decay; `scale` is
/// left at 1.
FactorsOf<double> update_factors(const OptimizerOptions& options, double rate, double weight_decay, int64_t updates);

/// Of this kind, with the defaults of its keys.
inline OptimizerOptions optimizer_defaults(const OptimizerKind& kind) {
  OptimizerOptions options;
  options.kind = &kind;
  if (kind.defaults != nullptr) kind.defaults(options);
  return options;
}

enum class RankScaling { linear, sqrt, two_thirds, none };

template <>
inline constexpr auto kWordsOf<RankScaling> = std::to_array<Word<RankScaling>>({{RankScaling::linear, "linear"},
                                                                                {RankScaling::sqrt, "sqrt"},
                                                                                {RankScaling::two_thirds, "two_thirds"},
                                                                                {RankScaling::none, "none"}});
enum class DecayName { constant, step, multistep, cosine, cosine_restarts, poly, plateau };

template <>
inline constexpr auto kWordsOf<DecayName> = std::to_array<Word<DecayName>>({{DecayName::constant, "constant"},
                                                                            {DecayName::step, "step"},
                                                                            {DecayName::multistep, "multistep"},
                                                                            {DecayName::cosine, "cosine"},
                                                                            {DecayName::cosine_restarts,
                                                                             "cosine_restarts"},
                                                                            {DecayName::poly, "poly"},
                                                                            {DecayName::plateau, "plateau"}});

/// `schedule.decay:`
struct DecayOptions {
  DecayName name = DecayName::constant;
  double factor = 0.1;                         ///< step, multistep, plateau
  Duration every{30, Duration::Unit::epochs};  ///< step; cosine_restarts: the first period
  std::vector<Duration> at;                    ///< multistep: ascending
  double final = 0;                            ///< cosine, poly: share of the scaled rate reached at the end
  double stretch = 1;                          ///< cosine_restarts: each period ÷ the one before, ≥ 1
  double power = 0.9;                          ///< poly: above 0
  int64_t patience = 1;                        ///< plateau: epochs without improvement before the rate falls
  std::string monitor = "valid.loss";          ///< plateau
  bool monitor_is_max = false;                 ///< plateau: a larger value is better; follows from monitor
};

/// `early_stop:` of the configuration.
struct EarlyStopOptions {
  int64_t patience = 0;         ///< epochs in a row without improvement after which a run ends; 0 = never
  std::string monitor = "";     ///< as checkpoint.best.monitor, which it is by default
  bool monitor_is_max = false;  ///< a larger value is better; follows from monitor
  double min_delta = 0;         ///< an improvement is larger than this
};

/// `ema:` of the configuration.
struct EmaOptions {
  double decay = 0;  ///< share of the average that is kept in an update, (0, 1); 0 = there is no average
};

/// The share in update number `updates`, the first being 1: min(decay, (1 + updates) ÷ (10 + updates)), the rule of
/// TensorFlow's tf.train.ExponentialMovingAverage, so that an average of a short run forgets where the run began.
double ema_decay(const EmaOptions& options, int64_t updates);

/// `schedule:` of the configuration.
struct ScheduleOptions {
  RankScaling scale_with_ranks = RankScaling::linear;
  Duration warmup{0, Duration::Unit::epochs};  ///< from the base to the scaled rate
  DecayOptions decay;
};

}  // namespace dtrain
