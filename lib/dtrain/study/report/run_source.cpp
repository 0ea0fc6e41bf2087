#include "dtrain/study/report/run_source.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/metrics/options.hpp"
#include "dtrain/study/points_table.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostOfStudy = int64_t{64} << 20;

int64_t whole(const std::string& field) {
  int64_t value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value);
  return value;
}

// valid_loss → valid.loss
Monitor monitor_of(const std::string& column) {
  std::string name = column;
  if (const size_t mark = name.find('_'); mark != std::string::npos) name[mark] = '.';
  return {.column = column, .larger_is_better = larger_is_better(name)};
}

// A study that was moved has its runs below it; points.csv says where they were.
std::string run_folder(const std::string& study, const std::string& run_dir) {
  const std::string beside = study + "/runs/" + last_part(run_dir);
  return is_there(beside) ? beside : run_dir;
}

std::string study_name(const std::string& folder) {
  const std::string file = folder + "/scaling.csv";
  if (is_there(file)) {
    const CsvTable table = CsvTable::read(file);
    if (const auto series = table.find_column("series"); series && table.rows() > 0) return table.at(0, *series);
  }
  return last_part(folder);
}

/// points.csv by the names of its columns.
class Points {
 public:
  explicit Points(const std::string& file) : table_(CsvTable::read(file)) {
    for (const char* name : {"point", "ranks", "seed", "fold", "state", "exit_code", "run_dir", "processes",
                             "elapsed_s", "metric", "series", "message"})
      if (!table_.find_column(name))
        throw DataError(file + " has no column '" + name +
                        "': dtrain sweep did not write it, or an older version did; its command brings it up to date");
  }
  int64_t count() const { return table_.rows(); }
  const std::string& at(int64_t row, const char* name) const { return table_.at(row, table_.column(name)); }

  std::string series(int64_t row, const std::string& study) const {
    const std::string& name = at(row, "series");
    return name.empty() ? study : name;
  }

 private:
  CsvTable table_;
};

RunSource source_of(const Points& points, int64_t row, const std::string& folder, const std::string& study) {
  RunSource source;
  source.path = run_folder(folder, points.at(row, "run_dir"));
  source.name = points.at(row, "point");
  const bool done = points.at(row, "state") == name_of(PointState::done);
  const bool failed = points.at(row, "state") == name_of(PointState::failed);
  source.state = done ? "finished" : points.at(row, "state");
  if (failed) source.state += " (" + points.at(row, "exit_code") + ")";
  source.series = points.series(row, study);
  source.ranks = whole(points.at(row, "ranks"));
  // The sweep leaves the times of points empty that had too few cores, or that ran side by side with others.
  source.timed =
      points.at(row, "processes") == points.at(row, "ranks") && (!done || !points.at(row, "elapsed_s").empty());
  source.seed = whole(points.at(row, "seed"));
  source.fold = whole(points.at(row, "fold"));
  source.monitor = monitor_of(points.at(row, "metric"));
  return source;
}

}  // namespace

std::string last_part(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

bool is_study_folder(const std::string& folder) { return is_there(folder + "/study.yaml"); }

StudySource read_study(const std::string& folder, const std::string& name) {
  StudySource study{.name = name.empty() ? study_name(folder) : name};
  const std::string description = folder + "/study.yaml";
  try {
    const std::string text = is_there(description) ? read_text(description, kMostOfStudy) : "";
    if (!text.empty()) study.words = words_of_study(text, description);
    if (!text.empty()) study.advice = advice_of_study(text, description);
  } catch (const DataError& error) {
    study.notes.push_back("no title, no published figures, no advice: " + std::string(error.what()));
  }
  const Points points(folder + "/points.csv");
  const bool varied = points.count() > 0 && !points.at(0, "series").empty();
  study.title = !study.words.title.empty() ? study.words.title : varied ? last_part(folder) : study.name;
  int64_t waiting = 0;
  for (int64_t row = 0; row < points.count(); ++row) {
    RunSource source = source_of(points, row, folder, study.name);
    const bool failed = points.at(row, "state") == name_of(PointState::failed);
    if (failed) study.notes.push_back(source.name + " " + source.state + ": " + points.at(row, "message"));
    if (is_run_folder(source.path))
      study.runs.push_back(std::move(source));
    else if (source.state == "finished")
      study.notes.push_back(source.name + " is finished, but its folder " + source.path + " is not there");
    else if (!failed)
      ++waiting;
  }
  if (waiting > 0) study.notes.push_back(count_of(waiting, "point has", "points have") + " not begun");
  return study;
}

std::vector<std::string> series_by_settings(const std::vector<std::map<std::string, std::string>>& settings,
                                            const std::vector<std::string>& names, const std::string& one) {
  constexpr size_t kMostKeys = 3;
  const auto value_of_key = [](const std::map<std::string, std::string>& its, const std::string& key) {
    const auto found = its.find(key);
    return found == its.end() ? std::string() : found->second;
  };
  std::set<std::string> keys;
  for (const auto& its : settings)
    for (const auto& [key, value] : its) keys.insert(key);
  std::erase_if(keys, [&](const std::string& key) {
    return std::all_of(settings.begin(), settings.end(),
                       [&](const auto& its) { return value_of_key(its, key) == value_of_key(settings.front(), key); });
  });
  std::vector<std::string> series;
  for (const auto& its : settings) {
    if (keys.empty()) {
      series.push_back(one);
    } else if (keys.size() > kMostKeys) {
      series.push_back(names[static_cast<size_t>(std::find(settings.begin(), settings.end(), its) - settings.begin())]);
    } else {
      std::vector<std::string> values;
      for (const std::string& key : keys) values.push_back(key + "=" + value_of_key(its, key));
      series.push_back(join(values, ", "));
    }
  }
  return series;
}

}  // namespace dtrain
