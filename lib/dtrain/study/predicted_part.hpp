#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/metrics/interval.hpp"
#include "dtrain/metrics/predictions.hpp"

namespace dtrain {

/// predictions_<split>.csv and metrics_<split>.json, as dtrain eval wrote them into a run's folder.
struct PredictedPart {
  std::string file;  ///< predictions_<split>.csv with its folder
  std::vector<std::string> classes;
  std::vector<std::string> paths;                ///< of the samples, each another
  std::vector<std::optional<int64_t>> patients;  ///< of the samples; nothing: not known
  Predictions predictions;                       ///< without losses and logits
  std::optional<double> temperature;             ///< that the probabilities were divided by
  std::string thresholds_from;                   ///< what chose the thresholds, "valid:youden"; "": they are ½
  std::string weights_sha256;                    ///< result_sha256 of the weights; "": an older version wrote it
};

/// What dtrain eval --split writes into the folder first; a run that was not evaluated has none.
std::string predictions_file(const std::string& folder, const std::string& split);

/// Throws MissingError without such a file, DataError if it is not that of this task, or of an older version, which
/// wrote no patients and pixels.
PredictedPart read_predictions(const std::string& folder, const std::string& split, Task task);

/// The samples that are in both, ordered by path.
struct SharedSamples {
  std::vector<std::string> classes;  ///< in the order of A
  Predictions a;
  Predictions b;
  Groups groups;       ///< samples that either file has of one patient are of one group
  int64_t only_a = 0;  ///< samples of A that B lacks
  int64_t only_b = 0;
  int64_t no_distance = 0;  ///< masks (of each class) whose distance one of them lacks: it counts in neither
  int64_t other_masks = 0;  ///< segmentation: samples whose masks have another number of pixels in B
};

/// Throws DataError if the classes differ, if a sample has different labels in the two, or if they share none.
SharedSamples shared_samples(const PredictedPart& a, const PredictedPart& b);

}  // namespace dtrain
