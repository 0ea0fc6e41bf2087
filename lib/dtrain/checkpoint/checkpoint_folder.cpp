#include "dtrain/checkpoint/checkpoint_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

CheckpointFolder::CheckpointFolder(std::string path, FileSystem& files) : path_(std::move(path)), files_(files) {}

std::string CheckpointFolder::file_name(const TrainingState& state) {
  char name[96];
  std::snprintf(name, sizeof name, "epoch-%04lld-step-%08lld.safetensors", static_cast<long long>(state.epoch),
                static_cast<long long>(state.step));
  return name;
}

// {step, epoch} from a checkpoint's file name, so that later ones compare greater; none for other files.
static std::optional<std::pair<int64_t, int64_t>> place_of(const std::string& name) {
  long long epoch = 0;
  long long step = 0;
  int end = 0;
  if (std::sscanf(name.c_str(), "epoch-%lld-step-%lld.safetensors%n", &epoch, &step, &end) != 2) return std::nullopt;
  if (end != static_cast<int>(name.size())) return std::nullopt;
  return std::pair<int64_t, int64_t>(step, epoch);
}

// A missing folder counts as empty; one that cannot be read is an error.
std::vector<std::string> CheckpointFolder::all_names() const {
  std::vector<std::string> names;
  const int failed = files_.list(path_, names);
  if (failed < 0 && failed != -ENOENT) throw_errno("list", path_, -failed);
  return names;
}

std::vector<std::string> CheckpointFolder::names() const {
  std::vector<std::string> names = all_names();
  std::erase_if(names, [](const std::string& name) { return !place_of(name); });
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return *place_of(a) > *place_of(b); });
  return names;
}

std::vector<std::string> CheckpointFolder::begin_after(int64_t step, int64_t epoch) const {
  std::vector<std::string> aside;
  for (const std::string& name : names()) {
    if (*place_of(name) <= std::pair(step, epoch)) continue;
    const std::string path = path_ + "/" + name;
    if (const int failed = files_.rename(path, path + ".aside"); failed < 0) throw_errno("set aside", path, -failed);
    aside.push_back(path + ".aside");
  }
  if (!aside.empty()) sync_folder(path_, files_);
  for (const std::string& name : all_names())
    if (name.ends_with(".safetensors.tmp")) files_.unlink(path_ + "/" + name);
  return aside;
}

std::string CheckpointFolder::save(const TrainingState& state, const HostCopy& tensors, int64_t keep) const {
  make_folders(path_, files_);
  const std::string path = path_ + "/" + file_name(state);
  save_tensors(path, tensors, {{"format", "dtrain-checkpoint-1"}, {"state", to_json(state)}}, files_);
  const std::vector<std::string> all = names();
  for (size_t i = static_cast<size_t>(keep); i < all.size(); ++i)
    files_.unlink(path_ + "/" + all[i]);  // may fail: an old file that stays does no harm
  return path;
}

CheckpointFolder::Found CheckpointFolder::read(const std::string& path, FileSystem& files) {
  SafetensorsFile file = SafetensorsFile::read(path, true, files);
  const auto state = file.metadata().find("state");
  if (state == file.metadata().end())
    throw DataError(
        path +
        " is not a checkpoint: it holds weights but no training state; use it with model.weights or dtrain eval");
  TrainingState training = training_state_from_json(state->second, path);
  const auto place = place_of(path.substr(path.rfind('/') + 1));
  if (place && *place != std::pair(training.step, training.epoch))
    throw DataError(path + " holds the state of step " + std::to_string(training.step) + " with " +
                    std::to_string(training.epoch) + " epochs finished, which does not match its name");
  return {path, std::move(training), std::move(file), {}};
}

std::vector<std::string> CheckpointFolder::paths() const {
  std::vector<std::string> paths = names();
  for (std::string& path : paths) path.insert(0, path_ + "/");
  return paths;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest() const {
  std::vector<std::string> skipped;
  for (const std::string& name : names()) {
    try {
      Found found = read(path_ + "/" + name, files_);
      found.skipped = skipped;
      return found;
    } catch (const DataError& damage) {
      skipped.emplace_back(damage.what());
    } catch (const IoError& unreadable) {  // a bad sector, say: try an older file
      skipped.emplace_back(unreadable.what());
    }
  }
  if (skipped.empty()) return std::nullopt;
  throw DataError(with_list(
      "no checkpoint in " + path_ + " is valid; start from scratch with --resume never, which moves this folder aside:",
      skipped));
}

}  // namespace dtrain
