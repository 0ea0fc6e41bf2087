// dtrain predict: what a trained network says of pictures without labels.
#include <ATen/Version.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "commands/predict_ensemble.hpp"
#include "commands/predict_output.hpp"
#include "commands/predict_telling.hpp"
#include "commands/predict_writer.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/overrides.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/dist/collectives.hpp"
#include "job/agreement.hpp"
#include "job/named_checkpoint.hpp"
#include "job/other_pictures.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

double overlap_of(const PredictCommand& command) { return command.tile_overlap.value_or(0.5); }

bool tiled(const PredictEnsemble& ensemble) {
  const auto& members = ensemble.members();
  return std::any_of(members.begin(), members.end(), [](const auto& member) { return member->tiles() > 1; });
}

std::string yes_or_no(bool is) { return is ? "yes" : "no"; }

// What decides about the bytes of what one of the networks says.
void add_member_facts(const std::string& prefix, const PredictMember& member, const Config& config,
                      PredictOutput::Facts& facts) {
  facts.emplace_back(prefix + "hash of the weights", member.sha256());
  const auto& temperature = member.fitted().temperature;
  facts.emplace_back(prefix + "temperature", temperature ? shortest(*temperature) : "none");
  for (const auto& [key, value] : fingerprint_values(config))
    if (key.starts_with("data.image.") || key == "precision" || key == "model.fused" ||
        key == "model.fast_convolutions")
      facts.emplace_back(prefix + key, value);
}

// All that decides about the bytes that are written.
PredictOutput::Facts output_facts(const PredictCommand& command, const Predicted& predicted,
                                  const PredictEnsemble& ensemble, const std::vector<Config>& configs, const Job& job) {
  PredictOutput::Facts facts = {{"number of --checkpoint", std::to_string(configs.size())}};
  for (size_t m = 0; m < configs.size(); ++m)
    add_member_facts(m == 0 ? "" : "--checkpoint " + std::to_string(m + 1) + ": ", *ensemble.members()[m], configs[m],
                     facts);
  facts.insert(facts.end(), {{"hash of the list of pictures and their sizes", ensemble.dataset().manifest_sha256},
                             {"number of pictures", std::to_string(ensemble.dataset().samples.size())},
                             {"--batch", std::to_string(predicted.batch)},
                             {"--mirror", yes_or_no(command.mirror)},
                             {"--cam", command.cam.value_or("no")}});
  if (predicted.task == Task::multilabel) {
    std::vector<std::string> thresholds;
    for (const double threshold : predicted.label_thresholds) thresholds.push_back(shortest(threshold));
    facts.emplace_back("--threshold", thresholds.empty() ? "none" : join(thresholds, ", "));
  }
  if (!predicted.values.empty()) {
    facts.emplace_back("--threshold",
                       predicted.threshold ? shortest(*predicted.threshold) : "background's probability");
    facts.emplace_back("--tile-overlap", tiled(ensemble) ? shortest(overlap_of(command)) : "no tiles");
    facts.emplace_back("--overlay", yes_or_no(command.overlay));
    facts.emplace_back("--scores", yes_or_no(command.scores));
    std::vector<std::string> values;
    for (const int64_t value : predicted.values) values.push_back(std::to_string(value));
    facts.emplace_back("pixel values of masks", join(values, ", "));
  }
  facts.emplace_back("columns", std::string(trimmed(head_of(predicted))));
  for (const auto& [key, value] : fingerprint_values(configs.front()))
    if (key == "distributed.threads" || (key.starts_with("data.") && key.ends_with(".image")))
      facts.emplace_back(key, value);
  for (const auto& [name, value] : job.device_facts()) facts.emplace_back("device: " + name, value);
  facts.emplace_back("processor: vector code", at::get_cpu_capability());
  for (const auto& [name, version] : library_versions()) facts.emplace_back("build: " + name, version);
  return facts;
}

// What the bytes depend on, too, and only rank 0 tells: other ranks may see copies of the pictures in other places, or
// be told by MPI's environment which of their processor's extensions to use.
void add_facts_of_root(const PredictCommand& command, const PredictEnsemble& ensemble, PredictOutput::Facts& facts) {
  std::error_code failed;  // other pictures first: what a person has typed says more than the hash of what lies there
  facts.insert(facts.begin(),
               {"--input", printable(std::filesystem::weakly_canonical(command.input, failed).string())});
  facts.emplace_back("hash of when the pictures were changed", ensemble.stamps_sha256());
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");  // oneDNN chooses its code by both
  facts.emplace_back("processor: extensions",
                     vector_extensions() + (most == nullptr ? "" : ", at most " + std::string(most)));
}

// On rank 0: the rows of a round, batch by batch in the order in which they were dealt, up to the first batch that its
// rank has not finished because it was stopped.
void gather_round(const std::vector<std::string>& told, int64_t batches, PredictOutput& output,
                  std::vector<std::string>& off_range, const Log& log) {
  std::vector<std::vector<std::string>> ranks;
  for (const std::string& text : told) ranks.push_back(split_text(text, '\0'));
  std::string rows;
  int64_t unread = 0, finished = 0;
  for (; finished < batches; ++finished) {
    const auto& texts = ranks[static_cast<size_t>(finished) % ranks.size()];
    const size_t place = 3 * (static_cast<size_t>(finished) / ranks.size());
    if (place + 2 >= texts.size()) break;
    rows += texts.at(place);
    for (const std::string& line : split_text(texts.at(place + 1), '\n')) {
      if (line.empty()) continue;
      log.warning("left out: " + line);
      ++unread;
    }
    for (const std::string& path : split_text(texts.at(place + 2), '\n'))
      if (!path.empty()) off_range.push_back(path);
  }
  output.add(rows, finished, unread);
}

// All ranks together, with the paths of Found::off_range on rank 0: every batch that is not written yet. A round is a
// few batches of each rank, so that no rank holds more rows than those; then rank 0 writes them. False: stopped.
bool predict_batches(const PredictCommand& command, const Predicted& predicted, PredictEnsemble& ensemble,
                     PredictOutput& output, int64_t done, std::vector<std::string>& off_range, Job& job) {
  constexpr int64_t kEach = 8;
  const auto all = static_cast<int64_t>(ensemble.dataset().samples.size());
  std::vector<int64_t> samples;
  for (int64_t i = done * predicted.batch; i < all; ++i) samples.push_back(i);
  ensemble.start(dealt_requests(samples, predicted.batch, job.rank(), job.size()));
  const std::vector<std::string> hosts = all_gather_text(job.comm(), host_name());
  const PredictWriter writer(predicted, ensemble, output, static_cast<size_t>(job.cores()),
                             std::count(hosts.begin(), hosts.end(), host_name()));
  PredictTelling telling(command, job, std::min(all, done * predicted.batch), all);
  for (int64_t begin = done; begin < predicted.batches; begin += kEach * job.size()) {
    const int64_t batches = std::min(kEach * job.size(), predicted.batches - begin);
    std::string texts;
    bool stopped = false;
    for (int64_t j = job.rank(); j < batches && !(stopped = stop_is_pending()); j += job.size()) {
      job.watchdog().enter(Section::evaluate, begin + j);
      const auto said = ensemble.next(begin + j);
      check(said.has_value(), "the loader makes every batch that it was asked for");
      const PredictWriter::Told told = writer.write(*said, [&] { job.watchdog().enter(Section::evaluate, begin + j); });
      if (command.on_bad == BadPicture::fail && !told.unread.empty())
        throw DataError(told.unread.substr(0, told.unread.find('\n')) +
                        "; repair or remove it, or leave it out with --on-bad skip");
      texts += told.rows + '\0' + told.unread + '\0' + told.off_range + '\0';
      telling.show(std::min(all, (begin + j + job.size()) * predicted.batch));
    }
    output.settle();
    const std::vector<std::string> gathered = gather_text(job.comm(), texts);
    if (job.is_root()) gather_round(gathered, batches, output, off_range, job.log());
    if (any(job.comm(), stopped)) return false;
  }
  return true;
}

// On rank 0, at the end.
void tell_end(const PredictCommand& command, const Predicted& predicted, int64_t pictures, int64_t bad,
              int64_t computed, double seconds, const Job& job) {
  const double rate = seconds > 0 ? static_cast<double>(computed) / seconds : 0;
  const std::string how =
      computed == 0 ? "nothing was left to do"
                    : with_commas(computed) + " in " + fixed(seconds, 1) + " s, " + fixed(rate, 1) + " pictures/s";
  job.log().info("done: " + count_of(pictures, "picture") +
                 (bad > 0 ? ", of which " + with_commas(bad) + " could not be read" : "") + " (" + how + "); " +
                 what_was_written(predicted, command.output) +
                 (predicted.values.empty()
                      ? "; next: open the table in a spreadsheet, or, if labels are known, evaluate: "
                      : "; next: look at the masks beside the pictures, or, if masks are known, evaluate: ") +
                 "dtrain eval --checkpoint " + shell_word(command.checkpoints.front()));
  if (!command.json) return;
  const nlohmann::ordered_json json = {{"output", command.output}, {"pictures", pictures}, {"unread", bad},
                                       {"batch", predicted.batch}, {"computed", computed}, {"ranks", job.size()},
                                       {"seconds", seconds},       {"images_per_s", rate}};
  std::printf("%s\n", printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).c_str());
  std::fflush(stdout);  // an error may follow
}

// Rank 0's words on every rank.
PredictOutput::Standing shared(const PredictOutput::Standing& standing, Job& job) {
  const nlohmann::json mine = {standing.batches, standing.bad, standing.complete};
  const auto json = nlohmann::json::parse(broadcast_text(job.comm(), mine.dump()));
  return {json.at(0), 0, json.at(1), json.at(2)};
}

// Throws UsageError or ConfigError for options and keys that have no effect on what these networks predict.
void require_effect(const PredictCommand& command, const PredictEnsemble& ensemble) {
  const PredictMember& first = ensemble.first();
  for (const auto& [key, text] : keys_of_overrides(command.config.sources))
    if (key == "data.root" && !first.asks_data_for_masks())
      throw ConfigError("command line: data.root has no effect on dtrain predict: --input names the pictures");
  const auto refuse = [&](const std::string& option, const std::string& why) {
    throw UsageError(option + " is for masks, and " + first.weights() + " predicts none" + why);
  };
  if (first.experiment().task == Task::segmentation) {
    if (command.tile_overlap && !tiled(ensemble))
      throw UsageError("--tile-overlap has no effect: " + first.weights() +
                       " was trained on whole pictures and sees whole ones; data.image.window makes tiles");
    return;
  }
  if (command.overlay) refuse("--overlay", "; --cam shows where a class was seen");
  if (command.scores) refuse("--scores", "; the table has the probabilities");
  if (command.tile_overlap) refuse("--tile-overlap", "");
  if (command.threshold && first.experiment().task == Task::multiclass)
    throw UsageError("--threshold is for masks and for labels, and " + first.weights() +
                     " predicts one class of several: the most probable one");
}

std::optional<size_t> cam_class(const PredictCommand& command, const std::vector<std::string>& classes) {
  if (!command.cam || *command.cam == kHighestScore) return std::nullopt;
  const auto found = std::find(classes.begin(), classes.end(), *command.cam);
  if (found == classes.end())
    throw UsageError("--cam=" + *command.cam + " is no class of the network; name one of " + join(classes, ", "));
  return static_cast<size_t>(found - classes.begin());
}

// Those of the command line, else those that eval has chosen for this network; none for a mean of several, for which
// none were chosen.
std::vector<double> label_thresholds(const PredictCommand& command, const PredictEnsemble& ensemble) {
  std::vector<double> thresholds;
  if (ensemble.first().experiment().task != Task::multilabel) return thresholds;
  if (command.threshold) thresholds.assign(ensemble.first().classes().size(), *command.threshold);
  if (command.threshold || ensemble.members().size() > 1) return thresholds;
  for (const std::optional<double>& chosen : ensemble.first().fitted().thresholds)
    thresholds.push_back(chosen.value_or(0.5));
  return thresholds;
}

Predicted predicted_by(const PredictCommand& command, const PredictEnsemble& ensemble) {
  Predicted predicted;
  const PredictMember& first = ensemble.first();
  predicted.task = first.experiment().task;
  predicted.classes = first.classes();
  if (predicted.task == Task::segmentation) predicted.values = first.pixel_values();
  if (predicted.task == Task::segmentation || command.cam) require_own_stems(ensemble.dataset());
  const bool exclusive =
      std::ranges::all_of(ensemble.members(), [](const auto& member) { return member->exclusive(); });
  if (command.threshold || exclusive) predicted.threshold = command.threshold;
  predicted.label_thresholds = label_thresholds(command, ensemble);
  predicted.overlay = command.overlay;
  predicted.scores = command.scores;
  predicted.cam = command.cam.has_value();
  predicted.cam_class = cam_class(command, predicted.classes);
  predicted.batch = command.batch > 0 ? command.batch : first.usual_batch();
  const auto all = static_cast<int64_t>(ensemble.dataset().samples.size());
  predicted.batches = (all + predicted.batch - 1) / predicted.batch;
  return predicted;
}

// Of each --checkpoint; `first` is that of the first one. What belongs to this machine is the first one's for all.
std::vector<Config> configs_of(const PredictCommand& command, const Config& first, const Job& job) {
  std::vector<Config> configs{first};
  for (size_t m = 1; m < command.checkpoints.size(); ++m) {
    ConfigSources sources = command.config.sources;
    if (sources.files.empty()) {
      add_own_configuration(command.checkpoints[m], sources);
      job.log().info("configuration " + (sources.files.empty() ? "in " + sources.stored_in : sources.files.front()));
    }
    configs.push_back(load_config(sources));
    configs.back().experiment.device = first.experiment.device;
    configs.back().experiment.distributed = first.experiment.distributed;
  }
  return configs;
}

std::vector<std::unique_ptr<PredictMember>> members_of(const PredictCommand& command, std::vector<Config>& configs,
                                                       Job& job) {
  std::vector<std::unique_ptr<PredictMember>> members;
  for (size_t m = 0; m < configs.size(); ++m) {
    const NamedWeights named = weights_at(command.checkpoints[m]);
    if (job.is_root() && !named.note.empty()) job.log().warning(named.note);
    const SafetensorsFile header = SafetensorsFile::read_header(named.path);
    if (command.batch == 0)
      configs[m] = with_batch_of_run(configs[m], header.metadata(), named.path, "dtrain predict without --batch");
    require_own_network(header.metadata(), named.path, configs[m]);
    if (job.is_root()) {
      const std::string other = other_pictures(header.metadata(), named.path, configs[m]);
      if (!other.empty()) job.log().warning(other);
    }
    members.push_back(std::make_unique<PredictMember>(
        configs[m].experiment, named.path,
        PredictViews{.mirror = command.mirror, .tile_overlap = overlap_of(command), .maps = command.cam.has_value()},
        job));
  }
  return members;
}

}  // namespace

int run_predict(const PredictCommand& command, const Config& config, Job& job) {
  require_apart(command.input, command.output);
  std::vector<Config> configs = configs_of(command, config, job);
  PredictEnsemble ensemble(members_of(command, configs, job), job);
  require_effect(command, ensemble);
  ensemble.open(command.input, command.column, command.output);
  const Predicted predicted = predicted_by(command, ensemble);
  if (const std::string how = how_it_is_seen(command, ensemble); job.is_root() && !how.empty())
    job.log().info("every picture: " + how);
  const auto all = static_cast<int64_t>(ensemble.dataset().samples.size());
  PredictOutput::Facts made_of = output_facts(command, predicted, ensemble, configs, job);
  std::vector<Fact> same;
  for (const auto& [name, value] : made_of) same.push_back({name, value, "see the same files"});
  require_agreement(job, same);
  add_facts_of_root(command, ensemble, made_of);
  PredictOutput output({.folder = command.output,
                        .facts = made_of,
                        .head = head_of(predicted),
                        .batches = predicted.batches,
                        .batch = predicted.batch,
                        .pictures = [&](const std::string& path) { return pictures_of(predicted, path); }});
  if (job.is_root()) output.take();
  if (job.is_root() && !output.locked())
    job.log().warning("the file system of " + command.output +
                      " has no locks: make sure that nothing else writes there");
  const PredictOutput::Standing before = shared(output.standing(), job);
  if (job.is_root() && before.batches > 0 && !before.complete)
    job.log().info("continuing after " + count_of(before.batches, "batch", "batches") + " of " +
                   with_commas(predicted.batches) + " that an earlier start has written");
  const Stopwatch watch;
  std::vector<std::string> off_range;
  const bool whole = predict_batches(command, predicted, ensemble, output, before.batches, off_range, job);
  if (job.is_root() && !off_range.empty()) job.log().warning(off_range_sentence(off_range, ensemble));
  if (!whole) {
    if (job.is_root()) job.log().info("stopped; finished batches are kept, and the same command continues from there");
    return exit_code::kStopped;
  }
  const double seconds = watch.seconds();
  job.watchdog().enter(Section::finish, 0);
  if (job.is_root() && before.complete)
    for (const std::string& path : output.unread(5))
      job.log().warning("left out by an earlier start: " + printable(path));
  if (job.is_root() && !before.complete) output.finish();
  const int64_t bad = shared(output.standing(), job).bad;
  if (job.is_root())
    tell_end(command, predicted, all, bad, all - std::min(all, before.batches * predicted.batch), seconds, job);
  if (bad > 0)
    throw DataError(count_of(bad, "picture") + " of the " + with_commas(all) + " in --input '" + command.input +
                    "' could not be read and " + (bad == 1 ? "has" : "have") + " no scores in '" + command.output +
                    "/predictions.csv'; all others are done");
  return exit_code::kDone;
}

}  // namespace dtrain
