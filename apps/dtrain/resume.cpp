#include "resume.hpp"

#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/dist/collectives.hpp"
#include "named_checkpoint.hpp"

namespace dtrain {

static ConfigDifferences differences(const TrainCommand& command, const std::map<std::string, std::string>& then,
                                     const std::map<std::string, std::string>& now) {
  std::vector<std::string> may_differ = command.resume_with;
  may_differ.emplace_back("distributed.logical_ranks");  // auto or their number: the state's own is compared
  return config_differences(then, now, may_differ);
}

void require_same_run(const TrainCommand& command, const TrainingState& now, const TrainingState& then,
                      const std::string& path) {
  const ConfigDifferences differ = differences(command, then.config, now.config);
  if (!differ.unknown.empty())
    throw ConfigError(with_list("the checkpoint " + path +
                                    " was saved by a newer dtrain than this one, with keys that this one does not "
                                    "have; go on with the newer one, or start afresh with --resume never:",
                                differ.unknown));
  if (!differ.changed.empty())
    throw ConfigError(with_list("the checkpoint " + path +
                                    " belongs to another configuration; set the keys back, allow them with "
                                    "--resume-with KEY, or start afresh with --resume never:",
                                differ.changed));
  if (then.manifest_sha256 != now.manifest_sha256)
    throw ConfigError("the data set has changed since " + path + " was saved (manifest " +
                      now.manifest_sha256.substr(0, 12) + " against " + then.manifest_sha256.substr(0, 12) +
                      "); restore it or start afresh with --resume never");
  if (then.split_sha256 != now.split_sha256)
    throw ConfigError("the split into training and validation has changed since " + path +
                      " was saved; restore the list files or start afresh with --resume never");
}

// Rank 0's part: reads what there is.
static Resume look(const TrainCommand& command, const RunFolder& folder, FileSystem& files) {
  Resume resume;
  if (command.resume == "never") return resume;
  std::optional<CheckpointFolder::Found> found;
  if (command.resume == "auto")
    found = CheckpointFolder(folder.checkpoints(), files).newest();
  else
    found = checkpoint_at(command.resume);
  if (!found) return resume;
  resume.resumed = true;
  resume.path = found->path;
  resume.state = std::move(found->state);
  resume.file = std::move(found->file);
  resume.skipped = std::move(found->skipped);
  return resume;
}

static int64_t choose_logical_ranks(const Resume& resume, const DistributedOptions& options, Job& job) {
  if (!resume.resumed) return options.logical_ranks > 0 ? options.logical_ranks : job.size();
  if (options.logical_ranks > 0 && options.logical_ranks != resume.state.logical_ranks)
    throw ConfigError("distributed.logical_ranks is " + std::to_string(options.logical_ranks) + ", but " + resume.path +
                      " was trained with " + std::to_string(resume.state.logical_ranks) +
                      "; the result depends on it, so set it back, leave it auto, or start afresh with --resume never");
  return resume.state.logical_ranks;
}

Resume find_resume(const TrainCommand& command, const Config& config, const RunFolder& folder, FileSystem& files,
                   Job& job) {
  for (const std::string& key : command.resume_with)
    if (!config.values.contains(key)) {
      std::vector<std::string> keys;
      for (const auto& [known, value] : config.values) keys.push_back(known);
      const std::string near = nearest_word(key, keys);
      throw UsageError("--resume-with " + key + " names no key of this configuration" +
                       (near.empty() ? "" : " (did you mean '" + near + "'?)"));
    }
  Resume resume;
  if (job.is_root()) resume = look(command, folder, files);
  // A finished run with the same configuration needs no data set to say so.
  if (job.is_root() && resume.resumed && folder.done() && resume.state.epoch >= config.experiment.epochs) {
    resume.finished = differences(command, resume.state.config, fingerprint_values(config)).none();
  }
  resume.finished = any(job.comm(), resume.finished);
  resume.resumed = any(job.comm(), resume.resumed);
  resume.path = broadcast_text(job.comm(), resume.path);
  if (resume.resumed) {
    const std::string state = broadcast_text(job.comm(), job.is_root() ? to_json(resume.state) : "");
    resume.state = training_state_from_json(state, resume.path);
  }
  resume.logical_ranks = choose_logical_ranks(resume, config.experiment.distributed, job);
  return resume;
}

}  // namespace dtrain
