// dtrain compare: two runs beside each other. Everything is read from their folders; nothing is computed with networks.
#include <algorithm>
#include <optional>

#include "commands/commands.hpp"
#include "commands/compare_report.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/runlog/progress.hpp"

namespace dtrain {
namespace {

std::optional<Config> config_of(const RunRecord& run, std::vector<std::string>& notes) {
  ConfigSources sources;
  sources.files = {run.folder + "/config.yaml"};
  sources.environment = false;
  try {
    return load_config(sources);
  } catch (const Error& error) {
    notes.push_back("the configuration of " + run.folder + " is not compared: " + lines_of(error.what()).front());
    return std::nullopt;
  }
}

using Texts = std::map<std::string, std::string>;

Texts texts_of(const Config& config) {
  Texts texts;
  for (const auto& [key, value] : config.values) texts[key] = value.text;
  return texts;
}

std::vector<Difference> differences(const Texts& a, const Texts& b) {
  Texts all = a;
  all.insert(b.begin(), b.end());
  std::vector<Difference> found;
  for (const auto& [key, unused] : all) {
    const auto of = [&key = key](const Texts& texts) { return texts.contains(key) ? texts.at(key) : ""; };
    if (of(a) != of(b)) found.push_back({key, of(a), of(b)});
  }
  return found;
}

// What run.json says that a result depends on.
Texts run_facts(const RunRecord& run) {
  Texts facts = run.versions;
  for (const char* key : {"data_sha256", "split_sha256", "weights", "gpu_environment"})
    if (!run.text(key).empty()) facts[key] = run.text(key);
  if (const auto v = run.counts.find("logical_ranks"); v != run.counts.end())
    facts["logical_ranks"] = std::to_string(v->second);
  return facts;
}

// What it says of how and how far the run went.
Texts other_facts_of(const RunRecord& run) {
  Texts facts;
  for (const char* key : {"ranks", "steps", "epochs"})
    if (const auto count = run.counts.find(key); count != run.counts.end()) facts[key] = std::to_string(count->second);
  std::vector<std::string> hosts;
  for (const auto& [host, ranks] : run.hosts) hosts.push_back(host + " × " + std::to_string(ranks));
  facts["hosts"] = join(hosts, "; ");
  facts["state"] = run.done ? "finished" : "not finished";
  return facts;
}

void add_configs(const std::optional<Config>& a, const std::optional<Config>& b, Comparison& c) {
  if (const Config* known = a ? &*a : b ? &*b : nullptr) {
    const Experiment& e = known->experiment;
    c.monitor = e.checkpoint.best_monitor.empty() ? default_monitor(e.task) : e.checkpoint.best_monitor;
    c.larger_is_better = e.checkpoint.best_is_max;
  }
  c.configs_read = a && b;
  if (!c.configs_read) return;
  // V stands among the facts; `auto` and the number that it came to are the same. Epochs are outside the fingerprint
  // because a run may go on to more of them.
  for (const Difference& one : differences(texts_of(*a), texts_of(*b))) {
    const bool counts =
        one.what == "epochs" || (key_in_fingerprint(one.what) && one.what != "distributed.logical_ranks");
    (counts ? c.keys : c.other_keys).push_back(one);
  }
  // A long list is cut in the headline: what weighs most comes first.
  std::stable_partition(c.keys.begin(), c.keys.end(), [](const Difference& one) {
    return one.what.ends_with(".name") || one.what == "task" || one.what == "data.format";
  });
}

// What a run's predictions were shown as: the only choice of thresholds and temperature that still matters to a figure.
Texts fit_of(const PredictedPart& part) {
  Texts fit;
  if (part.temperature) fit["temperature"] = shortest(*part.temperature);
  if (!part.thresholds_from.empty()) fit["thresholds_from"] = part.thresholds_from;
  return fit;
}

PredictedPart predictions_of(const RunRecord& run, const std::string& split, Task task) {
  const std::string file = predictions_file(run.folder, split);
  if (!is_there(file))
    throw MissingError(run.folder + " has no predictions of its " + split +
                       " part to compare; write them by: dtrain eval --checkpoint " + shell_word(run.folder) +
                       " --split " + split);
  return read_predictions(run.folder, split, task);
}

// Predictions stay where they are while a run trains on and finds better weights.
void note_other_weights(const RunRecord& run, const PredictedPart& part, Comparison& c) {
  const std::string best = run.folder + "/best.safetensors";
  if (part.weights_sha256.empty() || !is_there(best)) return;
  if (result_sha256(SafetensorsFile::read(best), "") != part.weights_sha256)
    c.notes.push_back(part.file + " was written for other weights than " + best +
                      " has now; for these: dtrain eval --checkpoint " + shell_word(run.folder) + " --split " +
                      c.command.split);
}

// Both runs' predictions, or why there are none to compare.
std::pair<PredictedPart, PredictedPart> both_predictions(const Comparison& c, Task task) {
  std::vector<Error> errors;
  std::vector<PredictedPart> parts;
  for (const RunRecord* run : {&c.a, &c.b}) {
    try {
      parts.push_back(predictions_of(*run, c.command.split, task));
    } catch (const Error& error) {
      errors.push_back(error);
    }
  }
  if (!errors.empty()) throw merge_errors(errors);
  return {std::move(parts[0]), std::move(parts[1])};
}

void add_values(const std::optional<Config>& a, const std::optional<Config>& b, Comparison& c, const Log& log) {
  if (!a && !b)
    throw DataError("without a configuration the task of these runs is not known, so no metric is compared");
  const Task task = (a ? a : b)->experiment.task;
  if (a && b && b->experiment.task != task)
    throw DataError(c.a.folder + " is a run for " + name_of(task) + " and " + c.b.folder + " one for " +
                    name_of(b->experiment.task) + "; their metrics are not comparable: name two runs of one task");
  const auto [part_a, part_b] = both_predictions(c, task);
  note_other_weights(c.a, part_a, c);
  note_other_weights(c.b, part_b, c);
  SharedSamples samples = shared_samples(part_a, part_b);
  const bool other_pictures = std::any_of(c.keys.begin(), c.keys.end(),
                                          [](const Difference& one) { return one.what.starts_with("data.image."); });
  if (samples.other_masks > 0 && !other_pictures)
    throw DataError("the masks of " + count_of(samples.other_masks, "sample") + " have other pixels in " + part_a.file +
                    " than in " + part_b.file + ", so their figures are not of the same question");
  if (samples.other_masks > 0)
    c.notes.emplace_back(
        "the runs see pictures in different ways (data.image): each figure counts its own run's pixels");
  if (c.a.text("data_sha256") != c.b.text("data_sha256"))
    c.notes.emplace_back("the data of the two runs differ: samples with the same path are taken for the same");
  if (samples.no_distance > 0)
    c.notes.push_back("distances of " + count_of(samples.no_distance, "mask") +
                      " are left out: one of the runs has none there, since it predicted nothing");
  for (const Difference& one : differences(fit_of(part_a), fit_of(part_b))) c.facts.push_back(one);
  ProgressLine progress(c.command.progress, read_launch().launched, log);
  const int64_t draws = c.command.draws;
  const Stopwatch clock;
  const auto told = [&](int64_t done) {
    progress.show(done, draws, [&]() -> ProgressFields {
      const double left =
          clock.seconds() * static_cast<double>(draws - done) / static_cast<double>(std::max<int64_t>(1, done));
      return {{"bootstrap: draw " + with_commas(done) + "/" + with_commas(draws), 2}, {"eta " + clock_text(left), 1}};
    });
  };
  c.values = compare(task, samples.classes, samples.a, samples.b, samples.groups,
                     {.draws = draws, .threads = bound_cores().size()}, told);
  c.samples = std::move(samples);
}

}  // namespace

std::string Comparison::monitored_column() const {
  std::string column = monitor;
  std::replace(column.begin(), column.end(), '.', '_');
  return column;
}

const NamedPair* Comparison::main_value() const {
  const std::string name = monitor.substr(monitor.find('.') + 1);
  for (const NamedPair& value : values)
    if (value.name == name) return &value;
  return values.empty() ? nullptr : &values.front();
}

int run_compare(const CompareCommand& command, const Log& log) {
  std::vector<Error> errors;
  std::vector<RunRecord> runs;
  for (const std::string& folder : command.runs) {
    try {
      runs.push_back(read_run(folder));
    } catch (const Error& error) {
      errors.push_back(error);
    }
  }
  if (!errors.empty()) throw merge_errors(errors);
  Comparison c{.command = command, .a = std::move(runs[0]), .b = std::move(runs[1])};
  for (const RunRecord* run : {&c.a, &c.b}) c.notes.insert(c.notes.end(), run->notes.begin(), run->notes.end());
  const std::optional<Config> config_a = config_of(c.a, c.notes);
  const std::optional<Config> config_b = config_of(c.b, c.notes);
  add_configs(config_a, config_b, c);
  c.facts = differences(run_facts(c.a), run_facts(c.b));
  c.other_facts = differences(other_facts_of(c.a), other_facts_of(c.b));
  c.parting = parting_of(c.a.steps, c.b.steps);
  std::optional<Error> unmeasured;
  try {
    add_values(config_a, config_b, c, log);
  } catch (const Error& error) {
    unmeasured = error;
    c.no_values = error.what();
  }
  print_comparison(c);
  if (unmeasured) throw *unmeasured;
  return exit_code::kDone;
}

}  // namespace dtrain
