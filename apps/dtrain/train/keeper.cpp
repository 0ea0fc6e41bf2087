#include "train/keeper.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/metrics/options.hpp"
#include "dtrain/train/ample_memory.hpp"
#include "train/resume.hpp"

namespace dtrain {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// How long a save may take, assumed until one has been measured: a slow disk's 100 MB/s.
static double slow_save_s(const std::vector<FileTensor>& tensors) {
  double bytes = 0;
  for (const FileTensor& tensor : tensors) bytes += static_cast<double>(tensor.tensor.nbytes());
  return 0.1 + bytes / 100e6;
}

Keeper::Keeper(const Parts& parts) : p_(parts), first_save_s_(slow_save_s(parts.built.replica->checkpoint_tensors())) {}

void Keeper::open(const std::string& standing_at) {
  Job& job = p_.run.job;
  if (job.is_root()) {
    const std::string checkpoints = p_.folder.place().checkpoints();
    const std::string standing = checkpoints + "/" + CheckpointFolder::file_name(p_.state);
    saves_ = std::make_unique<Saves>(
        checkpoints, Saves::Parts{.log = job.log(), .run_log = p_.folder.log(), .lock = p_.folder.lock()},
        Saves::Options{.keep = experiment().checkpoint.keep,
                       .max_failed = experiment().checkpoint.max_failed,
                       .under_mpirun = job.under_mpirun(),
                       .first_s = first_save_s_},
        standing_at == standing ? standing : "");
  }
  if (!any(job.comm(), job.is_root() && !best_file_is_ours())) return;
  if (job.is_root()) set_best_aside();
  p_.state.best_value = p_.state.best_loss = p_.state.best_frequencies_loss = kNoValue;
  p_.state.best_epoch = 0;
}

// Whether best.safetensors is what the state says: from its best epoch, with its best value; absent if the state has
// none yet. A damaged file is not.
bool Keeper::best_file_is_ours() const {
  const TrainingState& state = p_.state;
  FileSystem::Status status;
  const bool there = p_.folder.files().status(best_path(), false, status) == 0;
  if (std::isnan(state.best_value) || !there) return std::isnan(state.best_value) && !there;
  try {
    // Its metadata is referred to below.
    const SafetensorsFile file = SafetensorsFile::read(best_path(), true, p_.folder.files());
    const auto& stored = file.metadata();
    const auto says = [&](const std::string& key, const std::string& text) {
      const auto found = stored.find(key);
      return found != stored.end() && found->second == text;
    };
    return says("epoch", std::to_string(state.best_epoch)) &&
           says(experiment().checkpoint.best_monitor, shortest(state.best_value));
  } catch (const DataError&) {
    return false;
  }
}

void Keeper::set_best_aside() const {
  const std::string path = best_path();
  const std::string aside = path + ".aside";
  const int renamed = p_.folder.files().rename(path, aside);
  const bool there = renamed == 0;
  if (!there && renamed != -ENOENT) throw_errno("set aside", path, -renamed);
  const std::string wanted = std::isnan(p_.state.best_value) ? "none" : "epoch " + std::to_string(p_.state.best_epoch);
  p_.run.job.log().warning((there ? "best.safetensors is of another epoch than this run's best (" + wanted +
                                        ") and was set aside as " + aside
                                  : "best.safetensors (" + wanted + ") is missing") +
                           "; the best epoch from here on will be kept");
}

StopRequest Keeper::request() const {
  const Duration& every = experiment().checkpoint.every;
  const bool due =
      p_.run.job.is_root() && every.unit == Duration::Unit::seconds && since_save_.seconds() >= every.amount;
  return due ? StopRequest::save : StopRequest::none;
}

bool Keeper::due_after_step() const {
  const Duration& every = experiment().checkpoint.every;
  return every.unit == Duration::Unit::steps && p_.state.step % static_cast<int64_t>(every.amount) == 0;
}

bool Keeper::due_after_epoch() const {
  const Duration& every = experiment().checkpoint.every;
  const bool due =
      every.unit == Duration::Unit::epochs && p_.state.epoch % std::max<int64_t>(1, std::llround(every.amount)) == 0;
  return due || run_is_over(experiment(), p_.state);
}

void Keeper::save() {
  Job& job = p_.run.job;
  job.watchdog().enter(Section::save, p_.state.step);
  if (experiment().deterministic) require_ample_memory(job.comm(), job.device().place);
  p_.state.elapsed_s = p_.clock.run_s();
  p_.built.trainer->require_equal_replicas(p_.state.step);  // drifted replicas must not become the newest checkpoint
  since_save_.restart();
  const auto span = p_.trace.span("save", p_.state.step);
  if (!saves_) return;
  p_.folder.require();
  p_.folder.log().flush();  // a checkpoint's rows are on the disk before it; what fails is reported at the epoch's end
  saves_->begin(p_.state, p_.built.replica->checkpoint_tensors());
}

void Keeper::tell_saves() {
  if (!saves_) return;
  try {
    saves_->tell_ended();
  } catch (const Error&) {
    p_.folder.require();  // if it is gone, that is the reason
    throw;
  }
}

std::string Keeper::way_on() {
  if (!saves_) return "";
  try {
    saves_->tell_ended();
  } catch (const Error&) {  // it is not the failed save that ends this run
  }
  if (newest().empty()) return "; no checkpoint is saved, so the next start begins from scratch";
  return "; newest checkpoint: " + newest() + " (to resume: --resume-with KEY)";
}

// Of two equally good epochs the one with the lower loss is better.
bool Keeper::is_better(double value, const std::optional<double>& valid_loss) const {
  const TrainingState& state = p_.state;
  if (std::isnan(state.best_value)) return true;
  if (value == state.best_value) return valid_loss && *valid_loss < state.best_loss;
  return experiment().checkpoint.best_is_max ? value > state.best_value : value < state.best_value;
}

bool Keeper::note_best(const ClosedEpoch& epoch) {
  const EpochRow& row = epoch.row;
  const std::string& monitor = experiment().checkpoint.best_monitor;
  const std::optional<double> value = monitored(row, monitor);
  const std::optional<double> loss =
      is_averaged(monitor) ? monitored(row, averaged_name("valid.loss")) : row.valid_loss;
  if (!value || !is_better(*value, loss)) return false;
  p_.state.best_value = *value;
  p_.state.best_epoch = row.epoch;
  p_.state.best_loss = loss.value_or(kNoValue);
  p_.state.best_frequencies_loss = loss ? epoch.frequencies_loss : kNoValue;
  p_.run.job.watchdog().enter(Section::save, p_.state.step);
  if (saves_ && p_.folder.stands()) write_best(row, *value);
  return true;
}

void Keeper::write_best(const EpochRow& row, double value) {
  const nlohmann::json classes = p_.plan.outputs;
  const NetworkShape& shape = p_.plan.shape;
  std::map<std::string, std::string> metadata = {
      {"format", "dtrain-weights-1"},
      {"config", config_yaml(p_.run.config, false, false)},
      {"classes", classes.dump()},
      {"image_size", std::to_string(shape.height) + "," + std::to_string(shape.width)},
      {"logical_ranks", std::to_string(p_.plan.logical_ranks)},
      {"split_sha256", p_.state.split_sha256},
      {"trained_on", p_.state.trained_on},
      {"epoch", std::to_string(row.epoch)},
      {experiment().checkpoint.best_monitor, shortest(value)}};
  const nlohmann::json mask_values = p_.plan.dataset.mask_values;  // a list of pairs
  if (!p_.plan.dataset.mask_values.empty()) metadata["mask_values"] = mask_values.dump();
  std::optional<AveragedWeights> averaged;
  if (is_averaged(experiment().checkpoint.best_monitor)) averaged.emplace(*p_.built.replica);
  saves_->begin_best(best_path(), p_.state, p_.built.replica->model_tensors(""), std::move(metadata));
}

}  // namespace dtrain
