#include "train/resume.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/config/habits.hpp"
#include "dtrain/dist/collectives.hpp"
#include "job/named_checkpoint.hpp"

namespace dtrain {

constexpr const char* kLogicalRanks = "distributed.logical_ranks";

static bool may_change_ranks(const TrainCommand& command) {
  const std::vector<std::string>& keys = command.resume_with;
  return std::find(keys.begin(), keys.end(), kLogicalRanks) != keys.end();
}

static ConfigDifferences differences_from_run(const TrainCommand& command, const Config& config,
                                              const TrainingState& then) {
  std::vector<std::string> may_differ = command.resume_with;
  may_differ.emplace_back(kLogicalRanks);  // auto or a number: the state's own is compared
  for (const std::string& key : idle_keys(config)) may_differ.push_back(key);
  return config_differences(then.config, fingerprint_values(config), may_differ);
}

static void require_known(const ConfigDifferences& differ, const std::string& path) {
  if (!differ.unknown.empty())
    throw ConfigError(with_list(path + " was saved by a newer dtrain than this one, with keys that this one does not "
                                       "have; resume with the newer one, or start from scratch with --resume never:",
                                differ.unknown));
}

static void require_same_ranks(int64_t now, int64_t then, const std::string& path) {
  if (now == then) return;
  throw ConfigError(
      "distributed.logical_ranks is " + std::to_string(now) + ", but " + path + " was trained with " +
      std::to_string(then) +
      "; the result depends on it, so set it back, leave it auto, change it at the end of an epoch with --resume-with "
      "distributed.logical_ranks, or start from scratch with --resume never");
}

// What thawed has states and statistics of its own, which another set of groups would not fit.
static void require_thawed_groups(const Config& config, const TrainingState& then, const std::string& path) {
  if (then.thawed_at < 0) return;
  const std::map<std::string, std::string> now = fingerprint_values(config);
  for (const std::string key : {"optimizer.groups", "optimizer.freeze_until"}) {
    const auto is = now.find(key), was = then.config.find(key);
    const bool kept = is != now.end() && was != then.config.end() && is->second == was->second;
    if (!kept)
      throw ConfigError(key + " cannot change once the frozen groups train, as they do in " + path + " since step " +
                        std::to_string(then.thawed_at) +
                        "; set it back, or begin a new run from these weights with "
                        "model.weights");
  }
}

static std::string manifest_text(const TrainingState& state) { return state.manifest_sha256.substr(0, 12); }

void require_same_run(const TrainCommand& command, const Config& config, const TrainingState& now,
                      const TrainingState& then, const std::string& path) {
  const ConfigDifferences differ = differences_from_run(command, config, then);
  require_known(differ, "the checkpoint " + path);
  if (!differ.changed.empty())
    throw ConfigError(with_list("the checkpoint " + path +
                                    " belongs to another configuration; set the keys back, allow them with "
                                    "--resume-with KEY, or start from scratch with --resume never:",
                                differ.changed));
  require_thawed_groups(config, then, path);
  if (!may_change_ranks(command)) require_same_ranks(now.logical_ranks, then.logical_ranks, path);
  if (then.manifest_sha256 != now.manifest_sha256)
    throw ConfigError("the data set has changed since " + path + " was saved (manifest " + manifest_text(now) +
                      " against " + manifest_text(then) + "); restore it or start from scratch with --resume never");
  if (then.split_sha256 != now.split_sha256)
    throw ConfigError("the split into training and validation has changed since " + path +
                      " was saved; restore the list files or start from scratch with --resume never");
}

void require_same_finished_run(const TrainCommand& command, const Config& config, const TrainingState& now,
                               const TrainingState& then, const std::string& folder) {
  ConfigDifferences differ = differences_from_run(command, config, then);
  require_known(differ, "the finished run " + folder);
  std::vector<std::string>& list = differ.changed;
  if (now.logical_ranks != then.logical_ranks)
    list.push_back("distributed.logical_ranks was " + std::to_string(then.logical_ranks) + " and is now " +
                   std::to_string(now.logical_ranks) +
                   (config.experiment.distributed.logical_ranks > 0 ? "" : ", the number of processes"));
  if (now.manifest_sha256 != then.manifest_sha256)
    list.push_back("the data had the manifest " + manifest_text(then) + " and now have " + manifest_text(now) +
                   ": files were added, removed, renamed or resized, or labels changed");
  else if (now.split_sha256 != then.split_sha256)
    list.push_back("the split into training, validation and test was different");
  if (list.empty()) return;
  throw ConfigError(
      with_list(folder + " holds a finished run that differs from what this start asks for; for a separate run: "
                         "name=NEW or --run-dir DIR; to move it aside and take its place: --resume never; "
                         "what differs:",
                list));
}

int64_t steps_into_epoch(const Experiment& e, const Plan& plan, const TrainingState& state, const std::string& path) {
  if (state.cursor == 0) return 0;
  if (plan.logical_ranks != state.logical_ranks)
    throw ConfigError(path + " is inside an epoch, after " + count_of(state.cursor, "sample") +
                      "; distributed.logical_ranks can change only at the end of one: set it back to " +
                      std::to_string(state.logical_ranks) + " until then (epochs=" + std::to_string(state.epoch + 1) +
                      " stops there), or resume from a checkpoint there");
  const EpochPlan epoch = planned_epoch(e, plan, state.epoch);
  for (int64_t step = 0; step <= epoch.steps(); ++step)
    if (epoch.cursor(step) == state.cursor) return step;
  throw ConfigError(
      path + " is inside an epoch, after " + count_of(state.cursor, "sample") +
      "; batch and data keys can change only at the end of an epoch: set them back, or resume from a checkpoint there");
}

bool stopped_early(const Experiment& e, const TrainingState& state) {
  return e.early_stop.patience > 0 && state.early_stop.bad_epochs >= e.early_stop.patience;
}

bool run_is_over(const Experiment& e, const TrainingState& state) {
  return state.epoch >= e.epochs || stopped_early(e, state);
}

std::string early_stop_text(const Experiment& e) {
  return e.early_stop.monitor + " has not improved in " + count_of(e.early_stop.patience, "epoch") + " (early_stop)";
}

bool step_is_left(const Experiment& e, const Plan& plan, const TrainingState& state) {
  if (run_is_over(e, state)) return false;
  const EpochPlan epoch = planned_epoch(e, plan, state.epoch);
  return state.cursor < epoch.cursor(epoch.steps());
}

std::string finished_text(const Experiment& e, const TrainingState& state, const std::string& folder) {
  const bool early = stopped_early(e, state);
  return folder + " is finished with this configuration, after " + count_of(state.epoch, "epoch") +
         (early ? ": " + early_stop_text(e) : "") + "; nothing to do. More epochs: " +
         (early ? "early_stop.patience=N --resume-with early_stop.patience" : "add epochs=N") +
         "; a separate run: name=NEW; from scratch: --resume never";
}

// Rank 0's part: reads what exists.
static Resume look(const TrainCommand& command, const RunFolder& folder, FileSystem& files) {
  Resume resume;
  std::optional<CheckpointFolder::Found> found;
  switch (command.resume.kind) {
    case ResumeFrom::Kind::nothing:
      break;
    case ResumeFrom::Kind::newest:
      found = CheckpointFolder(folder.checkpoints(), files).newest();
      break;
    case ResumeFrom::Kind::path:
      require_named("--resume", command.resume.path);
      found = checkpoint_at(command.resume.path);
      break;
  }
  if (!found) return resume;
  resume.resumed = true;
  resume.path = found->path;
  resume.state = std::move(found->state);
  resume.file = std::move(found->file);
  resume.skipped = std::move(found->skipped);
  return resume;
}

// V changes in a run that is resumed only where this is asked for. For a finished one, and a dry run, another V is one
// more difference to list.
static int64_t choose_logical_ranks(const TrainCommand& command, const Resume& resume,
                                    const DistributedOptions& options, const Job& job) {
  const int64_t asked = options.logical_ranks;
  if (!resume.resumed) return asked > 0 ? asked : job.size();
  const int64_t then = resume.state.logical_ranks;
  if (may_change_ranks(command) && asked == 0)
    throw UsageError(std::string("--resume-with ") + kLogicalRanks +
                     " needs the number of logical ranks to go on with, as in " + kLogicalRanks + "=" +
                     std::to_string(2 * then) + "; auto keeps the checkpoint's " + std::to_string(then));
  if (resume.finished || command.dry_run) return asked > 0 ? asked : std::max<int64_t>(then, job.size());
  if (asked > 0 && !may_change_ranks(command)) require_same_ranks(asked, then, resume.path);
  return asked > 0 ? asked : then;
}

Resume find_resume(const TrainCommand& command, const Config& config, const RunFolder& folder, FileSystem& files,
                   Job& job) {
  for (const std::string& key : command.resume_with)
    if (!config.values.contains(key)) {
      std::vector<std::string> keys;
      for (const auto& [known, value] : config.values) keys.push_back(known);
      const Habit* habit = habit_behind(key);
      const std::string near =
          habit != nullptr && config.values.contains(habit->key) ? habit->key : nearest_word(key, keys);
      throw UsageError("--resume-with " + key + " is not a key of this configuration" +
                       (near.empty() ? "" : " (did you mean '" + near + "'?)"));
    }
  Resume resume;
  if (job.is_root()) resume = look(command, folder, files);
  if (job.is_root()) resume.finished = resume.resumed && folder.done() && run_is_over(config.experiment, resume.state);
  resume.finished = any(job.comm(), resume.finished);
  resume.resumed = any(job.comm(), resume.resumed);
  resume.path = broadcast_text(job.comm(), resume.path);
  if (resume.resumed) {
    const std::string state = broadcast_text(job.comm(), job.is_root() ? to_json(resume.state) : "");
    resume.state = training_state_from_json(state, resume.path);
  }
  resume.logical_ranks = choose_logical_ranks(command, resume, config.experiment.distributed, job);
  return resume;
}

}  // namespace dtrain
