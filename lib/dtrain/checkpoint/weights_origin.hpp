#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtrain {

/// What a file of weights says of the run that it came from; nothing in a foreign one.
struct WeightsOrigin {
  std::string prefix;         ///< of the model's tensors: "model." in a checkpoint
  int64_t logical_ranks = 0;  ///< 0: it does not say
  std::vector<std::string> classes;
  std::string split_sha256;
  std::string trained_on;  ///< training_digits() of its data
};

/// From the metadata of a checkpoint, of best.safetensors, or of a foreign file, of which only `trained_on` must be in
/// order. Throws DataError naming `file` and the key.
WeightsOrigin weights_origin(const std::map<std::string, std::string>& metadata, const std::string& file);

/// Throws DataError naming `file` unless `digits` can come from training_digits(): by them a part is told from what was
/// trained on, so that a damaged list would pass everything. Groups of 12 hex digits, ascending, each once, at most
/// 100,000; none at all is right too.
void require_training_digits(const std::string& digits, const std::string& file);

/// Whether it can be a SHA-256 as text: 64 lowercase hex digits.
bool is_sha256(const std::string& text);

}  // namespace dtrain
