#include "dtrain/config/overrides.hpp"

#include <algorithm>
#include <array>

#include "dtrain/base/error.hpp"
#include "dtrain/config/sources.hpp"

namespace dtrain {

namespace {

// Keys, and groups of them, that end in a dot.
constexpr std::array kOfTraining = {
    "epochs",
    "on_nan",
    "model.weights",
    "model.dropout",
    "data.sampling",
    "data.distribute",
    "data.augment.",
    "data.loader.on_bad_sample",
    "batch.accumulate",
    "batch.last",
    "data.loader.max_bad",
    "loss.l2_kernels",
    "optimizer.",
    "schedule.",
    "early_stop.",
    "ema.",
    "checkpoint.",
    "output.tensorboard",
};
// Labels, the loss that they are compared by, and where tables are; data.root can tell which pixel values masks have.
constexpr std::array kOfEvaluation = {
    "data.labels", "data.on_missing",   "data.split.", "loss.pos_weight",      "name",
    "loss.gamma",  "loss.class_weight", "loss.dice",   "loss.label_smoothing", "output.dir"};
constexpr std::array kOfNetwork = {"task",         "model.name",    "model.base_width",
                                   "model.levels", "model.encoder", "loss.deep_supervision"};

bool is_among(const auto& list, const std::string& key) {
  return std::ranges::any_of(
      list, [&](const std::string& one) { return one.ends_with('.') ? key.starts_with(one) : key == one; });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> keys_of_overrides(const ConfigSources& sources) {
  Experiment any;
  const Settings settings =
      collect_settings({.files = {}, .environment = false, .overrides = sources.overrides}, describe(any));
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Setting& setting : settings.all) keys.emplace_back(setting.key, setting.value.text);
  return keys;
}

void require_overrides_of(TrainedUse use, const std::string& command, const ConfigSources& sources) {
  std::vector<Error> errors;
  for (const auto& [key, text] : keys_of_overrides(sources)) {
    const std::string head = "command line: " + key + " has no effect on " + command;
    if (is_among(kOfTraining, key))
      errors.emplace_back(exit_code::kConfig, head + ", which trains nothing; leave it out");
    else if (use == TrainedUse::predict && is_among(kOfEvaluation, key))
      errors.emplace_back(exit_code::kConfig, head + ", which evaluates nothing; leave it out");
  }
  if (!errors.empty()) throw merge_errors(errors);
}

bool key_of_network(const std::string& key) { return is_among(kOfNetwork, key); }

}  // namespace dtrain
