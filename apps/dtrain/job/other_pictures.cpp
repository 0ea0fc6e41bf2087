#include "job/other_pictures.hpp"

#include <functional>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/config/overrides.hpp"
#include "job/batch_estimate.hpp"

namespace dtrain {
namespace {

using KeyValues = std::map<std::string, std::string>;

KeyValues only(const KeyValues& all, const std::function<bool(const std::string& key)>& wanted) {
  KeyValues some;
  for (const auto& [key, value] : all)
    if (wanted(key)) some.emplace(key, value);
  return some;
}

bool key_of_pictures(const std::string& key) { return key.starts_with("data.image."); }

// What a checkpoint or a run's best weights hold; none of a file from another program.
KeyValues stored_values(const KeyValues& metadata, const std::string& weights) {
  if (const auto state = metadata.find("state"); state != metadata.end())
    return training_state_from_json(state->second, weights).config;
  const auto format = metadata.find("format"), config = metadata.find("config");
  if (format == metadata.end() || !format->second.starts_with("dtrain-weights-") || config == metadata.end()) return {};
  return fingerprint_values(load_config(
      {.files = {}, .environment = false, .overrides = {}, .stored = config->second, .stored_in = weights}));
}

}  // namespace

Config with_batch_of_run(const Config& config, const KeyValues& metadata, const std::string& weights,
                         const std::string& what) {
  if (!config.experiment.batch.is_auto()) return config;
  KeyValues batch;
  try {
    batch = only(stored_values(metadata, weights), [](const std::string& key) { return key == "batch.per_rank"; });
  } catch (const Error&) {
    // other_pictures() says so
  }
  Config settled = config;
  keep_values_of_run(settled, batch);
  require_batch_number(settled.experiment, what + ", as " + weights + " does not say what its run found,");
  return settled;
}

void require_own_network(const KeyValues& metadata, const std::string& weights, const Config& now) {
  KeyValues stored;
  try {
    stored = only(stored_values(metadata, weights), key_of_network);
  } catch (const Error&) {
    return;  // other_pictures() says so
  }
  if (stored.empty()) return;
  const KeyValues own = fingerprint_values(now);
  const auto kinds = [](const std::string& key) { return key == "task" || key == "model.name"; };
  ConfigDifferences differ = config_differences(only(stored, kinds), only(own, kinds), {});
  if (differ.none())
    differ = config_differences(stored, only(own, key_of_network), {});  // what other kinds do not have
  if (!differ.changed.empty())
    throw ConfigError(weights + " was trained for another task or network than the configuration has: " +
                      join(differ.changed, "; ") + "; leave --config and these keys out, then the weights' own hold");
}

std::string other_pictures(const KeyValues& metadata, const std::string& weights, const Config& now) {
  const ImageOptions& image = now.experiment.data.image;
  KeyValues stored;
  try {
    stored = only(stored_values(metadata, weights), key_of_pictures);
  } catch (const Error& error) {
    return weights + " holds a configuration that cannot be read (" + join(lines_of(error.what()), " ") +
           "), so whether it was trained on pictures as they are prepared now is not known";
  }
  if (stored.empty()) return other_size(metadata, weights, image.seen_height(), image.seen_width());
  const ConfigDifferences differ = config_differences(stored, only(fingerprint_values(now), key_of_pictures), {});
  if (differ.none()) return "";
  return weights + " was trained on pictures that were prepared otherwise: " +
         join(differ.changed.empty() ? differ.unknown : differ.changed, "; ");
}

}  // namespace dtrain
