#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/time.hpp"

namespace dtrain {

enum class OptimizerName { sgd, adam, adamw, adagrad, adadelta };

/// `optimizer:` of the configuration. Defaults are PyTorch's where the key is not set.
struct OptimizerOptions {
  OptimizerName name = OptimizerName::adam;
  double learning_rate = 0.001;  ///< base rate, before scaling with the ranks
  double weight_decay = 0;       ///< adamw: decoupled; others: added to the gradient
  double clip_norm = 0;          ///< largest norm of the whole gradient, which is scaled down to it; 0 = none
  double momentum = 0;           ///< sgd
  bool nesterov = false;         ///< sgd, needs momentum > 0
  double beta1 = 0.9;            ///< adam, adamw
  double beta2 = 0.999;          ///< adam, adamw
  double eps = 1e-8;             ///< adam, adamw 1e-8; adagrad 1e-10; adadelta 1e-6
  double rho = 0.9;              ///< adadelta
};

enum class RankScaling { linear, sqrt, two_thirds, none };
enum class DecayName { constant, step, multistep, cosine, plateau };

/// Everything that a run can watch is better when larger, but the losses.
inline bool larger_is_better(const std::string& monitor) { return monitor != "valid.loss" && monitor != "train.loss"; }

/// `schedule.decay:`
struct DecayOptions {
  DecayName name = DecayName::constant;
  double factor = 0.1;                         ///< step, multistep, plateau
  Duration every{30, Duration::Unit::epochs};  ///< step
  std::vector<Duration> at;                    ///< multistep: ascending
  double final = 0;                            ///< cosine: share of the scaled rate reached at the end
  int64_t patience = 1;                        ///< plateau: epochs without improvement that are borne
  std::string monitor = "valid.loss";          ///< plateau
};

/// `schedule:` of the configuration.
struct ScheduleOptions {
  RankScaling scale_with_ranks = RankScaling::linear;
  Duration warmup{0, Duration::Unit::epochs};  ///< from the base to the scaled rate
  DecayOptions decay;
};

}  // namespace dtrain
