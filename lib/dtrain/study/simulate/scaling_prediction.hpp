#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dtrain/study/simulate/step_model.hpp"

namespace dtrain {

/// How long a training run is, in what does not depend on ranks.
struct TrainingLength {
  int64_t samples = 0;  ///< of the training part; 0 = not known: then there are no times to train
  int64_t epochs = 0;
  double valid_s = 0;  ///< of one epoch's evaluation on one rank; ranks share it
  double start_s = 0;  ///< before the first step
};

/// A job on a machine, for any number of ranks.
struct SimulatedJob {
  Workload workload;
  Cluster cluster;
  TrainingLength length;
  int64_t logical_ranks = 0;  ///< fixed, shared by the ranks (strong scaling); 0 = one per rank (weak scaling)

  int64_t logical_ranks_of(int64_t ranks) const { return logical_ranks > 0 ? logical_ranks : ranks; }
};

/// The largest number of ranks that is predicted.
inline constexpr int64_t kMostRanks = 65536;

/// A number of ranks, predicted.
struct ScalingPrediction {
  StepTime step;
  double speedup = 1;                     ///< images/s ÷ images/s at 1
  double efficiency = 1;                  ///< speed-up ÷ ranks
  std::optional<double> serial_fraction;  ///< (1/speed-up − 1/N) ÷ (1 − 1/N) (Karp and Flatt 1990); none of one rank
  std::optional<double> time_to_train_s;  ///< start + epochs · (steps · step + evaluation)
  std::optional<double> node_hours;
};
ScalingPrediction predict_scaling(const SimulatedJob& job, SumWay way, int64_t ranks);

/// Where more ranks stop to pay: in 1, 2, 4 … ranks the last up to which twice as many make training at least √2 times
/// as fast, as in a report (docs/studies.md: the knee of time against efficiency). By time to train if that is known,
/// else by images/s. kMostRanks if all pay; never above the fixed number of logical ranks.
int64_t pays_until(const SimulatedJob& job, SumWay way);

}  // namespace dtrain
