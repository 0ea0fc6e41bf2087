#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/config/experiment.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/metrics/predictions.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/train/replica.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// The network of a weights file on the data of a plan. All ranks make it and call it together.
class EvalNetwork {
 public:
  /// Throws DataError where the tensors of `file`, read from `path`, are those of another network, ConfigError where
  /// the ranks do not agree. Everything referred to outlives this.
  EvalNetwork(const SafetensorsFile& file, const std::string& path, const WeightsOrigin& origin, const Experiment& e,
              const Plan& plan, Job& job);
  EvalNetwork(const EvalNetwork&) = delete;
  EvalNetwork& operator=(const EvalNetwork&) = delete;

  /// What it says of these samples of the plan's data; on each rank all of it. `seen` gets the probabilities of each
  /// batch on the rank that computes them.
  using BatchSeen = std::function<void(const std::vector<int64_t>& samples, const at::Tensor& probabilities)>;
  Predictions predict(const std::vector<int64_t>& samples, const BatchSeen& seen = nullptr);

  /// A batch with masks once more, on the CPU.
  struct Seen {
    at::Tensor images;     ///< [n, C, H, W], normalised
    at::Tensor targets;    ///< [n, K, H, W]
    at::Tensor predicted;  ///< [n, K, H, W], of predicted_masks()
    int64_t place = 0;     ///< in the batch, of the sample that was asked for
  };
  /// By one rank alone: the batch of predict() in which samples[place] was.
  Seen look_at(const std::vector<int64_t>& samples, size_t place);
  /// Divides the logits by `temperature` and computes the probabilities anew, in the batches of predict(): a function
  /// of vectors may round its last numbers in another way, and dtrain predict computes them by batch, too.
  void apply_temperature(Predictions& predictions, double temperature) const;
  /// result_sha256 of the weights.
  std::string sha256() const { return replica_->sha256(); }

 private:
  const Experiment& experiment_;
  const Plan& plan_;
  Job& job_;
  Trace untraced_{false};
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<DeviceBatches> batches_;
};

}  // namespace dtrain
