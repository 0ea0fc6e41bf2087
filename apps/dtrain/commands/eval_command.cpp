#include <unistd.h>

#include <filesystem>
#include <optional>
#include <unordered_map>

#include "commands/commands.hpp"
#include "commands/eval_fit.hpp"
#include "commands/eval_masks.hpp"
#include "commands/eval_network.hpp"
#include "commands/eval_report.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/own_output.hpp"
#include "job/named_checkpoint.hpp"
#include "job/other_pictures.hpp"

namespace dtrain {
namespace {

// Training data cannot show how well a network has learnt. For the run's own split, its leaks have been reported.
void require_unseen(const EvalCommand& command, const std::string& part, const Plan& plan, const WeightsOrigin& origin,
                    const Log& log) {
  const std::vector<int64_t>& samples = part_of_split(plan.split, part);
  if (part == "train" || command.allow_trained || origin.split_sha256 == plan.split.sha256) return;
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
          count_of(static_cast<int64_t>(samples.size()), "sample") + " of the " + part +
          " part, or on other pictures of the same patients; use the split of its training, which is the default "
          "without --config and data keys, or --allow-trained if these are other patients who only share a number:",
      paths, 3));
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

void tell_groups(const Groups& groups, const Log& log) {
  if (groups.noun == "sample")
    log.info("the data do not identify patients: each sample counts as independent of the others");
}

// The folder of the run that wrote the checkpoint, whatever its name; for weights that lie elsewhere the one that a run
// with this configuration would have, if none has it.
std::string run_folder(const std::string& checkpoint, const Experiment& e) {
  const std::filesystem::path folder = std::filesystem::absolute(checkpoint).lexically_normal().parent_path();
  for (const auto& candidate : {folder, folder.parent_path()}) {
    if (!is_file((candidate / "run.json").string())) continue;
    if (::access(candidate.c_str(), W_OK) == 0) return candidate.string();
    throw PermissionError("the run's folder " + candidate.string() +
                          " is not writable, so its tables cannot be there; name another folder with --output");
  }
  const std::string usual = e.output_dir + "/" + e.name;
  if (is_file(usual + "/run.json"))
    throw ConfigError(checkpoint + " does not lie in the folder of a run, and " + usual +
                      ", where tables of this configuration would be, is a run's own; name a folder with --output");
  return usual;
}

// Tables of a run are of its best weights; other weights do not replace them.
void require_best(const EvalCommand& command, const EvalNetwork& network, const std::string& folder,
                  const EvalFile& first) {
  const std::string best = folder + "/best.safetensors";
  if (!command.output.empty() || !is_file(folder + "/" + first.name) || !is_file(best)) return;
  if (result_sha256(SafetensorsFile::read(best), "") == network.sha256()) return;
  throw ConfigError("the " + command.split + " tables in " + folder + " are of its best.safetensors, and " +
                    command.checkpoint + " has other weights; name another folder with --output");
}

// Figures of other samples (where the weights' split is known), or of pictures that were prepared otherwise, do not
// replace those of a run's own.
void require_own_figures(const EvalCommand& command, bool other_split, const std::string& prepared,
                         const std::string& folder) {
  if (!command.output.empty() || !is_file(folder + "/run.json")) return;
  const std::string split = command.checkpoint + " was trained with another split, or on other data, than this";
  if (other_split || !prepared.empty())
    throw ConfigError((other_split ? split : prepared) + "; tables of this would replace those of the run in " +
                      folder + "; name another folder with --output");
}

void warn_before(const EvalCommand& command, const Experiment& e, const std::string& prepared, const Log& log) {
  if (!prepared.empty()) log.warning(prepared);
  warn_of_fit_on_test(command, log);
  const ImageOptions& image = e.data.image;
  if (command.masks && (image.seen_height() < image.height || image.seen_width() < image.width))
    log.warning("masks are background outside the middle " + std::to_string(image.seen_height()) + " × " +
                std::to_string(image.seen_width()) +
                " pixels of data.image.window, which is all that evaluation shows the network; dtrain predict shows "
                "it whole pictures, in tiles");
}

void require_same_classes(const EvalCommand& command, const WeightsOrigin& origin, const Plan& plan) {
  if (!origin.classes.empty() && origin.classes != plan.outputs)
    throw ConfigError(command.checkpoint + " was trained for the classes " + join(origin.classes, ", ") +
                      ", but the data have " + join(plan.outputs, ", ") +
                      "; name data with the former (data.root), or rename their classes; where the data have them all, "
                      "data.classes chooses and orders them");
}

const std::vector<int64_t>& samples_of(const Plan& plan, const std::string& part) {
  const std::vector<int64_t>& samples = part_of_split(plan.split, part);
  if (samples.empty())
    throw ConfigError("the " + part + " part is empty; choose another with --split or set data.split." + part);
  return samples;
}

Written write_tables(const EvalResult& result, const std::vector<EvalFile>& files, const std::string& folder) {
  make_folders(folder);
  Written written;
  for (const EvalFile& one : files) {
    written.emplace_back(one.what, folder + "/" + one.name);
    write_file_atomically(written.back().second, one.text(result));
  }
  return written;
}

}  // namespace

int run_eval(const EvalCommand& typed, const Config& given, Job& job) {
  const NamedWeights named = weights_at(typed.checkpoint);
  if (job.is_root() && !named.note.empty()) job.log().warning(named.note);
  EvalCommand command = typed;
  command.checkpoint = named.path;
  const SafetensorsFile file = SafetensorsFile::read(command.checkpoint);
  const WeightsOrigin origin = weights_origin(file.metadata(), command.checkpoint);
  const Config config = with_batch_of_run(given, file.metadata(), command.checkpoint, "dtrain eval");
  const Experiment& e = config.experiment;
  require_own_network(file.metadata(), command.checkpoint, config);
  const std::string folder = command.output.empty() ? run_folder(command.checkpoint, e) : command.output;
  const int64_t logical_ranks = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks
                                : origin.logical_ranks > 0      ? origin.logical_ranks
                                                                : job.size();
  const Plan plan = make_plan(e, logical_ranks);
  require_options_for_task(command, e.task);
  const bool own_split = plan.split.sha256 == origin.split_sha256;
  const std::vector<EvalFile> files = eval_files(e.task, command.split);
  if (job.is_root())
    for (const EvalFile& one : files) require_own_output(folder + "/" + one.name, "table of " + one.what, one.marks);
  require_same_classes(command, origin, plan);
  const std::vector<int64_t>& samples = samples_of(plan, command.split);
  const bool other_part = command.threshold_from && command.threshold_from->part != command.split;
  if (other_part) samples_of(plan, command.threshold_from->part);
  if (job.is_root())
    for (const std::string& note : plan.dataset.notes) job.log().info(note);
  require_unseen(command, command.split, plan, origin, job.log());
  if (other_part) require_unseen(command, command.threshold_from->part, plan, origin, job.log());
  const std::string prepared = other_pictures(file.metadata(), command.checkpoint, config);
  require_own_figures(command, !own_split && !origin.split_sha256.empty(), prepared, folder);
  if (job.is_root()) warn_before(command, e, prepared, job.log());
  EvalNetwork network(file, command.checkpoint, origin, e, plan, job);
  if (job.is_root()) require_best(command, network, folder, files.front());
  std::optional<EvalMasks> masks;
  if (command.masks) masks.emplace(e, plan, origin, folder, command.split, job.cores());
  if (masks && job.is_root()) masks->require_own(samples);
  EvalNetwork::BatchSeen write_masks;
  if (masks) write_masks = [&](const auto& batch, const at::Tensor& likely) { masks->write(batch, likely); };
  Predictions predictions = network.predict(samples, write_masks);
  if (masks) masks->settle();
  std::optional<Predictions> chosen_on;
  if (other_part) chosen_on = network.predict(samples_of(plan, command.threshold_from->part));
  job.watchdog().enter(Section::finish, 0);
  if (!job.is_root()) return exit_code::kDone;
  EvalFit fit =
      fit_and_apply(command, network, origin.fitted, predictions, chosen_on ? &*chosen_on : nullptr, job.log());
  Groups groups = groups_of(plan.dataset, samples);
  std::vector<NamedValue> values = measure(e.task, plan.outputs, predictions, groups);
  const EvalResult result{command,           plan,          samples, predictions, network.sha256(), std::move(groups),
                          std::move(values), std::move(fit)};
  Written written = write_tables(result, files, folder);
  if (masks) {
    written.insert(written.end(), {{"masks", masks->folder()}, {"cases", masks->cases()}});
    write_cases(network, e, result, masks->cases());
  }
  tell_groups(result.groups, job.log());
  if (result.fit.is_new) keep_fit(command.checkpoint, file, result.fit.fitted, own_split, prepared, job.log());
  print_result(result, written);
  return exit_code::kDone;
}

}  // namespace dtrain
