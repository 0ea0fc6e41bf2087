#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/own_output.hpp"
#include "dtrain/metrics/measure.hpp"
#include "dtrain/train/evaluate.hpp"
#include "job/agreement.hpp"
#include "job/named_checkpoint.hpp"
#include "job/planned_parts.hpp"

namespace dtrain {
namespace {

// Training data cannot show how well a network has learnt. For the run's own split, its leaks have been reported.
void require_unseen(const EvalCommand& command, const Plan& plan, const WeightsOrigin& origin,
                    const std::vector<int64_t>& samples, const Log& log) {
  if (command.split == "train" || command.allow_trained || origin.split_sha256 == plan.split.sha256) return;
  if (!origin.split_sha256.empty() && origin.trained_on.empty())
    log.warning(command.checkpoint +
                " was trained on another split, with too many samples to keep a list: whether it has seen any of these "
                "is not known");
  const std::vector<int64_t> seen = samples_among(origin.trained_on, plan.dataset, samples);
  if (seen.empty()) return;
  std::vector<std::string> paths;
  for (const int64_t index : seen) paths.push_back(plan.dataset.samples[static_cast<size_t>(index)].path);
  throw DataError(with_list(
      command.checkpoint + " was trained on " + with_commas(static_cast<int64_t>(seen.size())) + " of the " +
          count_of(static_cast<int64_t>(samples.size()), "sample") + " of the " + command.split +
          " part, or on other pictures of the same patients; use the split of its training, which is the default "
          "without --config and data keys, or --allow-trained if these are other patients who only share a number:",
      paths, 3));
}

std::string classification_csv(const Plan& plan, const std::vector<int64_t>& samples, const Predictions& p) {
  std::string text = "path";
  for (const std::string& name : plan.outputs) text += "," + csv_field("score_" + name);
  for (const std::string& name : plan.outputs) text += "," + csv_field("label_" + name);
  text += "\n";
  for (size_t i = 0; i < p.samples(); ++i) {
    text += csv_field(plan.dataset.samples[static_cast<size_t>(samples[i])].path);
    for (size_t k = 0; k < p.outputs; ++k) text += "," + shortest(p.score(i, k));
    for (size_t k = 0; k < p.outputs; ++k) text += std::isnan(p.label(i, k)) ? "," : p.label(i, k) > 0.5F ? ",1" : ",0";
    text += "\n";
  }
  return text;
}

// The table for masks: a column for each metric that a single picture has, over all its classes together.
std::string segmentation_head() {
  std::string head = "path";
  for (const Metric* metric : all_metrics())
    if (metric->of_sample != nullptr) head += "," + metric->name;
  return head;
}

std::string segmentation_csv(const Plan& plan, const std::vector<int64_t>& samples, const Predictions& p) {
  std::string text = segmentation_head() + "\n";
  for (size_t i = 0; i < p.samples(); ++i) {
    PixelCounts counts;
    for (size_t k = 0; k < p.outputs; ++k) counts += p.counts(i, k);
    text += csv_field(plan.dataset.samples[static_cast<size_t>(samples[i])].path);
    for (const Metric* metric : all_metrics())
      if (metric->of_sample != nullptr) text += "," + shortest(metric->of_sample(counts));
    text += "\n";
  }
  return text;
}

// Samples of one patient are a group; a sample without a known patient is a group of its own.
Groups groups_of(const Dataset& dataset, const std::vector<int64_t>& samples) {
  Groups groups;
  std::unordered_map<std::string, int64_t> patients;
  for (const int64_t index : samples) {
    const Sample& sample = dataset.samples[static_cast<size_t>(index)];
    const bool known = tells_patient(dataset, sample);
    const int64_t number = known ? patients.emplace(sample.group, groups.count).first->second : groups.count;
    groups.count += number == groups.count ? 1 : 0;
    groups.of.push_back(number);
  }
  const auto known = static_cast<int64_t>(patients.size());
  groups.noun = known == groups.count ? "patient" : known == 0 ? "sample" : "group";
  return groups;
}

std::string interval_text(const Confidence& confidence, const std::string& noun, int digits) {
  if (!confidence.interval) return "no 95 % interval: " + confidence.no_interval;
  const Interval& interval = *confidence.interval;
  return "95 %: " + fixed(interval.low, digits) + " – " + fixed(interval.high, digits) + ", " + interval.method + ", " +
         count_of(confidence.groups, noun);
}

nlohmann::ordered_json value_json(const Measured& measured) {
  if (!measured.value) return nullptr;
  const Confidence& confidence = measured.confidence;
  nlohmann::ordered_json json = {{"value", *measured.value},
                                 {"low", nullptr},
                                 {"high", nullptr},
                                 {"method", nullptr},
                                 {"groups", confidence.groups}};
  if (const auto& interval = confidence.interval) {
    json["low"] = interval->low;
    json["high"] = interval->high;
    json["method"] = interval->method;
  } else {
    json["no_interval"] = confidence.no_interval;
  }
  return json;
}

std::string value_text(const NamedValue& one, const std::string& noun) {
  const Metric& metric = *one.metric;
  if (!one.measured.value) return "undefined: " + metric.undefined;
  return fixed(*one.measured.value, metric.digits) + "  (" +
         interval_text(one.measured.confidence, noun, metric.digits) + ")";
}

void print_values(const EvalCommand& command, const Predictions& predictions, const std::vector<NamedValue>& values,
                  const Groups& groups, const std::string& split_sha256, const std::string& csv) {
  const auto count = static_cast<int64_t>(predictions.samples());
  const std::string samples = count_of(count, "sample");
  std::printf("%s of %s: %s, split %s, loss %s\n", command.split.c_str(), printable(command.checkpoint).c_str(),
              (groups.noun == "sample" ? samples : samples + " of " + count_of(groups.count, groups.noun)).c_str(),
              split_sha256.substr(0, 12).c_str(), short_number(mean_loss(predictions), 6).c_str());
  std::vector<std::string> names;
  for (const NamedValue& one : values) names.push_back(printable(one.name));
  const int columns = cell_columns(names, 28);
  for (const NamedValue& one : values)
    std::printf("  %s %s\n", cell(printable(one.name), columns).c_str(), value_text(one, groups.noun).c_str());
  std::printf("predictions: %s\n", printable(csv).c_str());
  if (!command.json) return;
  nlohmann::ordered_json json = {{"split", command.split}, {"split_sha256", split_sha256},
                                 {"samples", count},       {"grouped_by", groups.noun},
                                 {"groups", groups.count}, {"loss", mean_loss(predictions)}};
  for (const NamedValue& one : values) json[one.name] = value_json(one.measured);
  std::printf("%s\n", printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).c_str());
}

// The folder of the run that wrote the checkpoint, whatever its name; otherwise, or if that is not writable, the one
// that a run with this configuration has.
std::string run_folder(const std::string& checkpoint, const Experiment& e) {
  const std::filesystem::path folder = std::filesystem::absolute(checkpoint).lexically_normal().parent_path();
  for (const auto& candidate : {folder, folder.parent_path()})
    if (is_file((candidate / "run.json").string()) && ::access(candidate.c_str(), W_OK) == 0) return candidate.string();
  return e.output_dir + "/" + e.name;
}

// All ranks together: predictions of the network in the file for these samples.
Predictions predictions_by(const SafetensorsFile& file, const std::string& path, const WeightsOrigin& origin,
                           const Experiment& e, const Plan& plan, const std::vector<int64_t>& samples, Job& job) {
  std::string weights_line;
  Replica replica(make_planned_network(e, plan, false, weights_line),
                  memory_format_for(*e.model.kind, job.device().place.type()), e.optimizer, job.device(), e.precision);
  fill_tensors(file, path, replica.model_tensors(origin.prefix));
  std::vector<Fact> facts = facts_of_plan(plan, replica.network(), "");
  facts.push_back({"tensors of --checkpoint", replica.sha256(), "see the same files"});
  require_agreement(job, facts);
  Trace trace(false);
  const auto loader = make_planned_loader(e, plan, replica, trace, job.cores());
  DeviceBatches batches(*loader, job.device());
  const Loss loss = make_planned_loss(e, plan, job.device().place);
  return *evaluate({.replica = replica,
                    .loss = loss,
                    .task = e.task,
                    .loader = batches,
                    .samples = samples,
                    .batch = plan.local_batch,
                    .comm = job.comm(),
                    .watchdog = job.watchdog()});
}

}  // namespace

int run_eval(const EvalCommand& typed, const Config& config, Job& job) {
  const Experiment& e = config.experiment;
  const NamedWeights named = weights_at(typed.checkpoint);
  if (job.is_root() && !named.note.empty()) job.log().warning(named.note);
  EvalCommand command = typed;
  command.checkpoint = named.path;
  const SafetensorsFile file = SafetensorsFile::read(command.checkpoint);
  const WeightsOrigin origin = weights_origin(file.metadata(), command.checkpoint);
  const std::string folder = command.output.empty() ? run_folder(command.checkpoint, e) : command.output;
  const std::string csv = folder + "/predictions_" + command.split + ".csv";
  if (job.is_root())
    require_own_output(csv, "table of predictions", {segmentation_head(), "path,score_", "path,\"score_"});
  const int64_t logical_ranks = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks
                                : origin.logical_ranks > 0      ? origin.logical_ranks
                                                                : job.size();
  const Plan plan = make_plan(e, logical_ranks);
  if (!origin.classes.empty() && origin.classes != plan.outputs)
    throw ConfigError(command.checkpoint + " was trained for the classes " + join(origin.classes, ", ") +
                      ", but the data have " + join(plan.outputs, ", ") + "; set data.classes to the former");
  const std::vector<int64_t>& samples = part_of_split(plan.split, command.split);
  if (samples.empty())
    throw ConfigError("the " + command.split + " part is empty; choose another with --split or set data.split." +
                      command.split);

  if (job.is_root())
    for (const std::string& note : plan.dataset.notes) job.log().info(note);
  require_unseen(command, plan, origin, samples, job.log());
  if (const std::string other = other_size(file.metadata(), command.checkpoint, plan.shape.height, plan.shape.width);
      job.is_root() && !other.empty())
    job.log().warning(other);
  const Predictions predictions = predictions_by(file, command.checkpoint, origin, e, plan, samples, job);
  job.watchdog().enter(Section::finish, 0);
  if (!job.is_root()) return exit_code::kDone;
  make_folders(folder);
  write_file_atomically(csv, e.task == Task::segmentation ? segmentation_csv(plan, samples, predictions)
                                                          : classification_csv(plan, samples, predictions));
  const Groups groups = groups_of(plan.dataset, samples);
  if (groups.noun == "sample")
    job.log().info("the data do not identify patients: each sample counts as independent of the others");
  print_values(command, predictions, measure(e.task, plan.outputs, predictions, groups), groups, plan.split.sha256,
               csv);
  return exit_code::kDone;
}

}  // namespace dtrain
