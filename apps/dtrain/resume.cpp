#include "resume.hpp"

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

static std::vector<std::string> differing_keys(const std::map<std::string, std::string>& then,
                                               const std::map<std::string, std::string>& now,
                                               const std::vector<std::string>& allowed) {
  std::vector<std::string> lines;
  const auto value = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("not set") : found->second;
  };
  std::map<std::string, std::string> keys = then;
  keys.insert(now.begin(), now.end());
  for (const auto& [key, text] : keys) {
    const bool may_differ = !key_in_fingerprint(key) || key == "distributed.logical_ranks" ||
                            std::find(allowed.begin(), allowed.end(), key) != allowed.end();
    if (!may_differ && value(then, key) != value(now, key))
      lines.push_back(key + " was " + value(then, key) + " and is now " + value(now, key));
  }
  return lines;
}

void require_same_run(const TrainCommand& command, const TrainingState& now, const TrainingState& then,
                      const std::string& path) {
  const std::vector<std::string> differences = differing_keys(then.config, now.config, command.resume_with);
  if (!differences.empty())
    throw ConfigError(with_list("the checkpoint " + path +
                                    " belongs to another configuration; set the keys back, allow them with "
                                    "--resume-with KEY, or start afresh with --resume never:",
                                differences));
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
    found = CheckpointFolder::read(command.resume);
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
    resume.finished = differing_keys(resume.state.config, fingerprint_values(config), command.resume_with).empty();
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
