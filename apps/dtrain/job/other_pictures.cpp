#include "job/other_pictures.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"

namespace dtrain {
namespace {

using Values = std::map<std::string, std::string>;

Values picture_keys(const Values& all) {
  Values some;
  for (const auto& [key, value] : all)
    if (key.starts_with("data.image.")) some.emplace(key, value);
  return some;
}

// What a checkpoint or a run's best weights hold; none of a file from another program.
Values stored_values(const Values& metadata, const std::string& weights) {
  if (const auto state = metadata.find("state"); state != metadata.end())
    return training_state_from_json(state->second, weights).config;
  const auto format = metadata.find("format"), config = metadata.find("config");
  if (format == metadata.end() || !format->second.starts_with("dtrain-weights-") || config == metadata.end()) return {};
  return fingerprint_values(load_config(
      {.files = {}, .environment = false, .overrides = {}, .stored = config->second, .stored_in = weights}));
}

}  // namespace

std::string other_pictures(const Values& metadata, const std::string& weights, const Config& now) {
  const ImageOptions& image = now.experiment.data.image;
  Values stored;
  try {
    stored = picture_keys(stored_values(metadata, weights));
  } catch (const Error& error) {
    return weights + " holds a configuration that cannot be read (" + join(lines_of(error.what()), " ") +
           "), so whether it was trained on pictures as they are prepared now is not known";
  }
  if (stored.empty()) return other_size(metadata, weights, image.seen_height(), image.seen_width());
  const ConfigDifferences differ = config_differences(stored, picture_keys(fingerprint_values(now)), {});
  if (differ.none()) return "";
  return weights + " was trained on pictures that were prepared otherwise: " +
         join(differ.changed.empty() ? differ.unknown : differ.changed, "; ");
}

}  // namespace dtrain
