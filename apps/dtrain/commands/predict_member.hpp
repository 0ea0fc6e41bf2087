#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/config/experiment.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/train/replica.hpp"
#include "job/job.hpp"

namespace dtrain {

/// A network that predicts, with the pictures as it wants to see them: what a file of weights and the configuration in
/// it say.
class PredictMember {
 public:
  /// `weights`: the file. Throws ConfigError, DataError where it does not hold a network of this configuration, or does
  /// not name its classes. `job` outlives this.
  PredictMember(const Experiment& experiment, const std::string& weights, PictureInput input, Job& job);
  PredictMember(const PredictMember&) = delete;
  PredictMember& operator=(const PredictMember&) = delete;

  const Experiment& experiment() const { return experiment_; }
  const std::vector<std::string>& classes() const { return origin_.classes; }
  const Dataset& dataset() const { return input_.dataset; }
  /// Of a batch where the command line names none: that of evaluation.
  int64_t usual_batch() const;
  /// result_sha256 of the weights.
  std::string sha256() const { return replica_->sha256(); }
  /// Segmentation: the value that masks have for the background and for each class (pixel_values_of). Throws
  /// ConfigError where nothing tells them.
  std::vector<int64_t> pixel_values() const;

  /// Begins to load these batches.
  void start(std::vector<BatchRequest> requests) { batches_->start(std::move(requests)); }
  /// What the network says of the next one.
  struct Said {
    std::vector<int64_t> samples;
    std::vector<ListedPictures::Found> found;  ///< of each
    at::Tensor probabilities;  ///< on the CPU: float64 [n, K]; segmentation float32 [n, K, H, W] of what it saw
  };
  /// Nothing after the last. Throws DivergedError where a number is not finite.
  std::optional<Said> next();

 private:
  Experiment experiment_;
  std::string weights_;
  WeightsOrigin origin_;
  PictureInput input_;
  Job& job_;
  Trace untraced_{false};
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<DeviceBatches> batches_;
};

}  // namespace dtrain
