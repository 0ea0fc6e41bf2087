#include "commands/sweep_folds.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "commands/measured_text.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/pooled_folds.hpp"

namespace dtrain {
namespace {

// Its folds have this in common.
std::string name_without_fold(const SweepPoint& point) {
  const std::string part = "_fold-" + std::to_string(point.fold);
  std::string name = point.name;
  return name.erase(name.rfind(part), part.size());
}

std::string json_of(const PooledFolds& pooled, size_t folds, const std::vector<NamedValue>& values) {
  nlohmann::ordered_json json = {{"split", "pooled"},
                                 {"folds", folds},
                                 {"samples", pooled.predictions.samples()},
                                 {"grouped_by", pooled.groups.noun},
                                 {"groups", pooled.groups.count}};
  for (const NamedValue& one : values) json[one.name] = measured_json(one.measured);
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string SweepFolds::folder_of(const JudgedPoint& point) const {
  return p_.folder.file("evaluations/" + point.row.point.name);
}

// eval writes the metrics after the predictions, each of them whole.
bool SweepFolds::evaluate() const {
  for (const JudgedPoint& point : p_.points) {
    if (point.row.point.fold == 0 || point.row.state != PointState::done) continue;
    if (is_there(folder_of(point) + "/metrics_valid.json")) continue;
    if (!run(point)) return false;
  }
  return true;
}

bool SweepFolds::run(const JudgedPoint& point) const {
  const SweepRow& row = point.row;
  const std::string log = p_.folder.log_of(row.point);
  const int64_t began = is_there(log) ? file_bytes(log) : 0;
  p_.log.info("evaluating " + row.point.name + " on its validation part");
  ChildJob job(
      {launcher_.mpirun, "-np", std::to_string(std::min(row.processes, static_cast<int64_t>(bound_cores().size()))),
       "--oversubscribe", "--bind-to", "none", launcher_.dtrain, "eval", "--checkpoint", row.run_dir, "--output",
       folder_of(point)},
      log);
  std::optional<int> code;
  while (!(code = job.ended())) {
    if (stop_is_pending()) return false;  // ends the job; the next start evaluates this point again
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (*code == exit_code::kDone) return true;
  const bool own = *code >= exit_code::kUsage && *code <= exit_code::kReplicasDiffer;
  throw Error(own ? *code : exit_code::kPeerFailed,
              "evaluating " + row.point.name + " failed: " + last_sentence(log, began) + "; its log is " + log);
}

// Those of which every fold is done.
std::vector<SweepFolds::Group> SweepFolds::groups() const {
  std::vector<Group> all;
  for (const JudgedPoint& point : p_.points) {
    if (point.row.point.fold == 0) continue;
    const std::string name = name_without_fold(point.row.point);
    auto group = std::find_if(all.begin(), all.end(), [&](const Group& other) { return other.name == name; });
    if (group == all.end()) group = all.insert(all.end(), {name, {}});
    if (point.row.state == PointState::done) group->folds.push_back(&point);
  }
  std::erase_if(all,
                [&](const Group& group) { return static_cast<int64_t>(group.folds.size()) < p_.command.plan.folds; });
  return all;
}

std::vector<std::string> SweepFolds::pool() const {
  const std::vector<Group> all = groups();
  std::vector<std::string> lines;
  for (const Group& group : all) {
    const std::vector<std::string> its = pool_group(group, all.size() == 1 ? "" : "_" + group.name);
    lines.insert(lines.end(), its.begin(), its.end());
  }
  return lines;
}

std::vector<std::string> SweepFolds::pool_group(const Group& group, const std::string& ending) const {
  std::vector<EvaluatedFold> folds;
  for (const JudgedPoint* point : group.folds) folds.push_back({point->row.point.fold, folder_of(*point)});
  const Task task = group.folds.front()->task;
  const PooledFolds pooled = pool_folds(folds, task);
  const std::vector<NamedValue> values = measure(task, pooled.classes, pooled.predictions, pooled.groups);
  write_file_atomically(p_.folder.file("predictions_pooled" + ending + ".csv"), pooled.csv);
  write_file_atomically(p_.folder.file("metrics_pooled" + ending + ".json"), json_of(pooled, folds.size(), values));
  if (pooled.fitted)
    p_.log.warning(group.name +
                   ": some folds have a temperature or thresholds of their own; their probabilities are pooled as they "
                   "are, and classes called at one half");
  const std::string samples = count_of(static_cast<int64_t>(pooled.predictions.samples()), "sample");
  std::vector<std::string> lines = {
      group.name + ", " + count_of(static_cast<int64_t>(folds.size()), "fold") + " pooled: " +
      (pooled.groups.noun == "sample" ? samples
                                      : samples + " of " + count_of(pooled.groups.count, pooled.groups.noun))};
  std::vector<std::string> names;
  for (const NamedValue& one : values)
    if (one.name == one.metric->name) names.push_back(one.name);
  const int columns = cell_columns(names, 12);
  for (const NamedValue& one : values)
    if (one.name == one.metric->name)
      lines.push_back("  " + cell(one.name, columns) + " " + measured_text(one, pooled.groups.noun));
  return lines;
}

}  // namespace dtrain
