#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/checkpoint/fitted.hpp"

namespace dtrain {

/// What a weights file says about the run that it came from; empty for a file from another program.
struct WeightsOrigin {
  std::string prefix;         ///< of the model's tensors: "model." in a checkpoint
  int64_t logical_ranks = 0;  ///< 0: it does not say
  std::vector<std::string> classes;
  std::string split_sha256;
  std::string trained_on;  ///< training_digits() of its data
  /// Segmentation: pixel value of a mask → class 1, 2 … of `classes`, 0: background. Of best.safetensors alone, and not
  /// of one that was written before predictions were.
  std::map<int64_t, int64_t> mask_values;
  Fitted fitted;  ///< of best.safetensors alone; empty where eval has fitted nothing
};

/// From the metadata of a checkpoint, of best.safetensors, or of a file from another program, in which only
/// `trained_on` must be valid. Throws DataError naming `file` and the key.
WeightsOrigin weights_origin(const std::map<std::string, std::string>& metadata, const std::string& file);

/// A warning where `file` was trained on pictures of another size than height × width, which the network gets now; ""
/// where it was not, or does not say.
std::string other_size(const std::map<std::string, std::string>& metadata, const std::string& file, int64_t height,
                       int64_t width);

/// Throws DataError naming `file` unless `digits` can come from training_digits(): they separate a part from the
/// training data, so a damaged list would let everything pass. Groups of 12 hex digits, ascending, each once, at most
/// 100,000; none at all is also valid.
void require_training_digits(const std::string& digits, const std::string& file);

/// Whether it can be a SHA-256 as text: 64 lowercase hex digits.
bool is_sha256(const std::string& text);

}  // namespace dtrain
