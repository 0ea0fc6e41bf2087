#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/eval_network.hpp"
#include "commands/eval_report.hpp"
#include "dtrain/io/files/file.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// The masks of a part: one PNG per picture below a folder, under the picture's path with the ending replaced, of its
/// original size, with the pixel values of the training masks, made as dtrain predict makes them.
class EvalMasks {
 public:
  /// Which pixel values masks have is told by the data, else by the weights' file. Throws ConfigError where neither
  /// says it; DataError for two pictures whose masks would have one name. What is referred to outlives this.
  EvalMasks(const Experiment& e, const Plan& plan, const WeightsOrigin& origin, const std::string& folder,
            const std::string& split, int64_t threads);

  /// Throws ConfigError where another program's file has the name of a mask of `samples`, or of the sheet of cases.
  void require_own(const std::vector<int64_t>& samples) const;
  /// Writes those of a batch. probabilities: [n, K, H, W], of what the network saw.
  void write(const std::vector<int64_t>& samples, const at::Tensor& probabilities);
  /// After it returns all that this rank has written survives a power cut.
  void settle() { files_.settle(); }
  const std::string& folder() const { return folder_; }  ///< masks_<split> in the folder of the evaluation
  const std::string& cases() const { return cases_; }    ///< cases_<split>.png there

 private:
  std::string path_of(int64_t sample) const;
  void write_one(int64_t sample, const float* probabilities);

  const ImageOptions& image_;
  const Dataset& dataset_;
  std::vector<int64_t> values_;
  std::string folder_;
  std::string cases_;
  size_t threads_;
  std::optional<double> threshold_;  // of called_classes()
  FileBatch files_;
};

/// Writes a sheet of the three best, the three median and the three worst pictures of a part, by the task's first
/// metric of single pictures, with the outlines of truth and prediction, to the PNG file `path`. On rank 0; the batches
/// of these pictures go through the network once more, with the same bits.
void write_cases(EvalNetwork& network, const Experiment& e, const EvalResult& result, const std::string& path);

}  // namespace dtrain
