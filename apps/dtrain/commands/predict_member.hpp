#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/config/experiment.hpp"
#include "dtrain/data/pixels/tiles.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/train/replica.hpp"
#include "job/job.hpp"

namespace dtrain {

/// How a network is shown a picture, and what is wanted of it, beside what its configuration says.
struct PredictViews {
  bool mirror = false;        ///< the mean over mirrored_views()
  double tile_overlap = 0.5;  ///< of tiles, where there are any
  bool maps = false;          ///< class activation maps, too
};

/// Names of the outputs of the network in `weights`: those of the file, or of the configuration where it names none.
/// Throws ConfigError where neither does, or where the configuration says something else than the file.
std::vector<std::string> known_classes(const WeightsOrigin& origin, const DataOptions& data,
                                       const std::string& weights);

/// One of the networks that predict: what a file of weights and the configuration in it say.
///
/// Segmentation with a data.image.window smaller than data.image.size was trained on parts of pictures: such a network
/// is shown the whole picture in overlapping tiles of the window's size (Tiling). All others see what they see in
/// evaluation.
class PredictMember {
 public:
  /// `weights`: the file. Throws ConfigError, DataError where it does not hold a network of this configuration, or does
  /// not name its classes; UsageError for maps of a network that has none. `job` outlives this.
  PredictMember(const Experiment& experiment, const std::string& weights, const PredictViews& views, Job& job);
  PredictMember(const PredictMember&) = delete;
  PredictMember& operator=(const PredictMember&) = delete;

  const Experiment& experiment() const { return experiment_; }
  const std::string& weights() const { return weights_; }
  const std::vector<std::string>& classes() const { return origin_.classes; }
  /// What eval has fitted to it. say() uses the temperature, but not for masks, to which none is fitted.
  const Fitted& fitted() const { return origin_.fitted; }
  /// Masks: a pixel is background or of one of the classes, which share the probability 1.
  bool exclusive() const { return loss_->has_background(static_cast<int64_t>(classes().size())); }
  /// Of a batch where the command line names none: that of evaluation.
  int64_t usual_batch() const;
  /// result_sha256 of the weights.
  std::string sha256() const { return replica_->sha256(); }
  /// Segmentation: the value that masks have for the background and for each class (pixel_values_of). Throws
  /// ConfigError where nothing tells them.
  std::vector<int64_t> pixel_values() const;
  /// Whether for that it opens the data that the weights were trained on.
  bool asks_data_for_masks() const;

  /// The pictures that it is to be given: those of its configuration, without the window where it is shown tiles.
  const ImageOptions& pictures() const { return pictures_; }
  at::MemoryFormat memory_format() const { return replica_->memory_format(); }
  /// How many tiles a picture is shown in; 1: as a whole.
  size_t tiles() const { return tiling_ ? tiling_->tiles().size() : 1; }

  /// What it says of pictures.
  struct Said {
    at::Tensor probabilities;  ///< on the CPU: float64 [n, K]; segmentation float32 [n, K, H, W] of pictures()
    at::Tensor maps;           ///< if wanted: class activation maps, on the CPU, float32 [n, K, h, w]
  };
  /// `images`: [n, C, H, W] of pictures(), as the loader gives them; `batch`: the number of their batch, for the
  /// watchdog, which counts each pass through the network as progress.
  Said say(const at::Tensor& images, int64_t batch);

 private:
  std::vector<at::Tensor> of_views(const at::Tensor& images, int64_t batch);
  at::Tensor of_tiles(const at::Tensor& images, int64_t batch);

  Experiment experiment_;
  std::string weights_;
  PredictViews views_;
  Job& job_;
  WeightsOrigin origin_;
  ImageOptions pictures_;
  std::optional<Tiling> tiling_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Loss> loss_;
};

}  // namespace dtrain
