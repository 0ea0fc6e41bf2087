#include "commands/sweep_folder.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

constexpr RunLock::Kind kSweep{"dtrain study, ", "sweeping into", "--output"};
constexpr int64_t kMostOfStudy = int64_t{64} << 20;

// Empty but for what a start leaves that was killed before it could say what the study is.
bool is_vacant(const std::string& folder) {
  std::vector<std::string> names;
  if (const int failed = real_file_system().list(folder, names); failed < 0) throw_errno("list", folder, -failed);
  const std::string lock = is_file(folder + "/.lock") ? read_text(folder + "/.lock", 512) : "";
  const bool begun = RunLock::is_mark(lock, kSweep);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    if (name == ".lock") return lock.empty() || begun;
    return name == "study.yaml.tmp" ||
           (begun && (name == "data" || name == "data.partial" || name == "shards" || name == "logs"));
  });
}

}  // namespace

void SweepFolder::lock() {
  if (is_file(path_)) throw UsageError("--output '" + path_ + "' is a file; name a folder that is new or empty");
  make_folders(path_);
  if (!is_there(file("study.yaml")) && !is_vacant(path_))
    throw UsageError("--output '" + path_ +
                     "' is not empty and was not begun by dtrain sweep; name a folder that is new or empty");
  lock_ = std::make_unique<RunLock>(path_, RunLock::this_process(), RunLock::wait_a_little, kSweep);
}

void SweepFolder::take(const StudyAsked& asked) {
  if (!lock_) lock();
  const std::string description = file("study.yaml");
  if (is_there(description)) {
    const std::string differs = study_difference(read_text(description, kMostOfStudy), description, asked);
    if (!differs.empty())
      throw ConfigError(path_ + " holds a study that differs from what this start asks for: " + differs +
                        "; for another study name another --output");
  }
  make_folders(file("runs"));
  make_folders(file("logs"));
  if (!is_there(description)) write_file_atomically(description, study_yaml(asked));
}

std::string SweepFolder::epochs_of(const SweepPlan& plan, const SweepPoint& point) const {
  const bool only_ranks = plan.over.empty() && plan.repeat == 1 && plan.folds == 0;
  return file("logs/log_" + (only_ranks ? std::to_string(point.ranks) : point.name) + ".csv");
}

// The configuration that the run stored, against the one that the point has now.
void SweepFolder::require_same_run(const JudgedPoint& point) const {
  const std::string& folder = point.row.run_dir;
  const Config stored = load_config({.files = {folder + "/config.yaml"}, .environment = false, .overrides = {}});
  std::vector<std::string> may_differ = point.idle_keys;
  may_differ.emplace_back("distributed.logical_ranks");
  ConfigDifferences differ = config_differences(fingerprint_values(stored), point.fingerprint, may_differ);
  if (point.row.result.logical_ranks != point.logical_ranks)
    differ.changed.push_back("distributed.logical_ranks was " + std::to_string(point.row.result.logical_ranks) +
                             " and is now " + std::to_string(point.logical_ranks));
  if (point.row.result.data_sha256 != point.data_sha256)
    differ.changed.emplace_back("the data set has changed since");
  else if (point.row.result.split_sha256 != point.split_sha256)
    differ.changed.emplace_back("the split into training and validation has changed since");
  if (differ.none()) return;
  throw ConfigError(folder + " holds a finished run of another configuration or other data: " +
                    join(differ.changed.empty() ? differ.unknown : differ.changed, "; ") +
                    "; name another --output, or move that run away");
}

// Where a default has changed since the first points were begun, all points keep to what these began with: a study
// compares them.
void SweepFolder::keep_to_begun(std::vector<JudgedPoint>& points, const Log& log) const {
  std::map<std::string, std::string> begun;
  for (const JudgedPoint& point : points) {
    const std::string file = run_of(point.row.point) + "/config.yaml";
    if (point.of_the_run.empty() || !is_there(file)) continue;
    const Config stored = load_config({.files = {file}, .environment = false, .overrides = {}});
    for (const std::string& key : point.of_the_run)
      if (stored.values.contains(key)) begun.emplace(key, stored.values.at(key).text);
  }
  std::set<std::string> kept;
  for (JudgedPoint& point : points)
    for (const std::string& key : point.of_the_run) {
      const auto value = begun.find(key);
      if (value == begun.end() || point.fingerprint.at(key) == value->second) continue;
      point.fingerprint[key] = value->second;
      point.overrides.push_back(key + "=" + value->second);
      kept.insert(point.overrides.back());
    }
  for (const std::string& word : kept)
    log.info("all points have " + word + ", as the study began before the default was another");
}

void SweepFolder::find_standing(std::vector<JudgedPoint>& points, const Log& log) const {
  keep_to_begun(points, log);
  std::map<std::string, EarlierPoint> earlier;
  const std::string table = file("points.csv");
  if (is_there(table) && file_bytes(table) == 0)
    log.warning(table +
                " is empty and counts for nothing: finished points are known by their runs, failed ones run again");
  else if (is_there(table))
    earlier = earlier_points(table);
  for (JudgedPoint& point : points) {
    SweepRow& row = point.row;
    row.run_dir = run_of(row.point);
    row.result = read_result(row.run_dir, row.monitor);
    const EarlierPoint then = earlier[row.point.name];
    if (is_there(row.run_dir)) row.jobs = then.jobs;
    if (row.result.done) {
      require_same_run(point);
      row.state = PointState::done;
    } else if (then.failed) {
      row.state = PointState::failed;
      row.exit_code = then.exit_code;
      row.message = then.message;
    } else if (row.result.epochs > 0) {
      row.state = PointState::stopped;
    }
  }
}

void SweepFolder::write_points(const SweepPlan& plan, const std::vector<JudgedPoint>& points) const {
  std::vector<SweepRow> rows;
  for (const JudgedPoint& point : points) rows.push_back(point.row);
  write_file_atomically(file("points.csv"), points_csv(plan, rows));
}

}  // namespace dtrain
