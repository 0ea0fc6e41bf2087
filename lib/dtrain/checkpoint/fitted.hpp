#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/io/files/safetensors.hpp"

namespace dtrain {

/// What `dtrain eval` has fitted, on request, to the network of a weights file: how its logits become probabilities,
/// and from which probability on an output calls a sample positive. WeightsOrigin::fitted has it.
///
/// In the file it is one JSON object in the metadata, under kFittedKey: {"temperature": 1.37, "temperature_from":
/// "valid", "thresholds": [0.12, null], "thresholds_from": "valid:youden"}; the first or the last two may be absent.
struct Fitted {
  /// Logits are divided by it before softmax (multiclass) or sigmoid (multilabel); from kLeastTemperature to
  /// kMostTemperature.
  std::optional<double> temperature;
  std::string temperature_from;  ///< the part that it was fitted on; "" without one

  /// Multilabel: for each class, in the file's order, from which probability on (after the temperature, itself
  /// included) a sample is called positive, 0 … 1. Nothing: that part could not tell, and ½ holds. Empty: none were
  /// chosen.
  std::vector<std::optional<double>> thresholds;
  std::string thresholds_from;  ///< part and rule: "valid:sensitivity=0.95"; "" without thresholds

  bool empty() const { return !temperature && thresholds.empty(); }
  friend bool operator==(const Fitted&, const Fitted&) = default;
};

inline constexpr const char* kFittedKey = "fitted";

/// The object, as text.
std::string fitted_json(const Fitted& fitted);
/// `classes`: how many the network has. Throws DataError naming `file` for anything that fitted_json() does not write.
Fitted fitted_from_json(const std::string& text, size_t classes, const std::string& file);

/// Writes `fitted` into the weights file at `path` in place of what was fitted before; an empty one removes the key.
/// The whole file is written anew, with checksums, and takes the name at once (AtomicFile); tensors and the rest of the
/// metadata stay, and so does the file's mode. `evaluated` is what was read from there: throws DataError if there is
/// another network by now, which is then left alone, ConfigError for a link and for a file that is not a run's
/// best.safetensors, PermissionError for one that is read-only. Otherwise like write_safetensors().
void write_fitted(const std::string& path, const SafetensorsFile& evaluated, const Fitted& fitted);

}  // namespace dtrain
