#include "commands/report_reading.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/report/page.hpp"
#include "dtrain/study/report/reported_run.hpp"
#include "dtrain/study/report/reported_study.hpp"

namespace dtrain {
namespace {

/// A run folder by itself: what its stored configuration says.
struct LoneRun {
  RunSource source;
  std::map<std::string, std::string> settings;  ///< key → value of all that may make another series of it
  std::string no_settings;                      ///< why they are not known
};

std::string column_of(std::string monitor) {
  std::replace(monitor.begin(), monitor.end(), '.', '_');
  return monitor;
}

std::optional<Config> stored_config(const std::string& folder, std::string& why_not) {
  try {
    return load_config({.files = {folder + "/config.yaml"}, .environment = false, .overrides = {}});
  } catch (const Error& error) {
    why_not = "the configuration of " + folder + " is not known: " + lines_of(error.what()).front();
    return std::nullopt;
  }
}

// Seeds and folds repeat a run, and the number of logical ranks is what a series is over.
bool makes_a_series(const std::string& key) {
  static const std::set<std::string> kRepeats = {"seed", "data.split.fold", "data.split.valid",
                                                 "distributed.logical_ranks"};
  return key_in_fingerprint(key) && !kRepeats.contains(key);
}

LoneRun lone_run(const std::string& folder) {
  LoneRun run{.source = {.path = folder}, .settings = {}, .no_settings = ""};
  const std::optional<Config> config = stored_config(folder, run.no_settings);
  if (!config) return run;
  const Experiment& e = config->experiment;
  run.source.name = e.name;
  run.source.monitor = {column_of(e.checkpoint.best_monitor), e.checkpoint.best_is_max};
  run.source.seed = static_cast<int64_t>(e.seed);
  if (e.data.split.folds > 0) run.source.fold = e.data.split.fold;
  for (const auto& [key, value] : config->values)
    if (makes_a_series(key)) run.settings[key] = value.text;
  run.settings["epochs"] = std::to_string(e.epochs);
  return run;
}

// N is the number of processes; where runs of a series differ in V and not in that, V.
void choose_ranks(std::vector<ReportedRun>& runs) {
  std::map<std::string, std::set<int64_t>> processes;
  std::map<std::string, std::set<int64_t>> logical;
  for (const ReportedRun& run : runs) {
    processes[run.series].insert(run.processes);
    logical[run.series].insert(run.logical_ranks);
  }
  for (ReportedRun& run : runs) {
    if (logical[run.series].size() <= processes[run.series].size() || run.logical_ranks == 0) continue;
    run.ranks = run.logical_ranks;
    run.timed = run.processes == run.logical_ranks;
  }
}

std::vector<ReportedRun> read_lone_runs(const std::vector<std::string>& folders, bool counted) {
  std::vector<LoneRun> lone;
  std::vector<std::map<std::string, std::string>> settings;
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    lone.push_back(lone_run(folder));
    settings.push_back(lone.back().settings);
    names.push_back(lone.back().source.name.empty() ? folder : lone.back().source.name);
  }
  const bool one_name = std::adjacent_find(names.begin(), names.end(), std::not_equal_to<>()) == names.end();
  const std::vector<std::string> series =
      series_by_settings(settings, names, one_name && !names.empty() ? names.front() : "runs");
  std::vector<ReportedRun> runs;
  for (size_t i = 0; i < lone.size(); ++i) {
    const bool shares_name = std::count(names.begin(), names.end(), names[i]) > 1;
    if (shares_name) lone[i].source.name = folders[i];  // how the reader tells them apart
    lone[i].source.series = series[i];
    runs.push_back(read_reported_run(lone[i].source, counted));
    if (!lone[i].no_settings.empty()) runs.back().notes.push_back(lone[i].no_settings);
  }
  choose_ranks(runs);
  return runs;
}

// points.csv names the monitor, but not which way is up where the configuration says so (checkpoint.best.mode).
void take_direction(StudySource& study) {
  for (const RunSource& run : study.runs) {
    std::string why_not;
    const std::optional<Config> config = stored_config(run.path, why_not);
    if (!config) continue;
    for (RunSource& one : study.runs) one.monitor.larger_is_better = config->experiment.checkpoint.best_is_max;
    return;
  }
}

void add_study(StudySource study, bool several, std::vector<ReportedRun>& runs, std::vector<std::string>& notes) {
  take_direction(study);
  for (RunSource& source : study.runs) {
    if (several && source.series != study.name) source.series = study.name + ": " + source.series;
    runs.push_back(read_reported_run(source, false));
  }
  notes.insert(notes.end(), study.notes.begin(), study.notes.end());
}

Report report_of(const std::string& title, std::vector<ReportedRun> runs, const std::vector<std::string>& notes) {
  Report report{.title = title, .runs = std::move(runs), .study = std::nullopt};
  report.study = reported_study(title, report.runs, notes);
  return report;
}

std::string what_is_no_run(const std::string& path) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(path, none))
    if (is_run_folder(entry.path().string()))
      return path + " holds runs and is none itself; name those that belong together, such as " + path + "/*";
  return path +
         " is neither a run's folder nor a study's: it holds no run.json, epochs.csv or study.yaml; name one, such as "
         "runs/NAME";
}

void require_own(const std::string& file, const std::string& mark) {
  constexpr int64_t kStart = 4096;
  if (!is_there(file)) return;
  const std::vector<std::byte> bytes = read_file_start(file, kStart);
  const std::string start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (start.find(mark) == std::string::npos)
    throw UsageError(file + " is there and was not written by dtrain report; name another folder with --output");
}

}  // namespace

ReportedPaths reported_paths(const std::vector<std::string>& words) {
  ReportedPaths paths;
  std::vector<Error> errors;
  std::set<std::string> seen;
  for (std::string word : words) {
    while (word.size() > 1 && word.ends_with('/')) word.pop_back();
    const std::string same = std::filesystem::path(word).lexically_normal().string();
    if (!seen.insert(same).second) errors.push_back(UsageError(word + " is given twice"));
    if (!is_there(word))
      errors.push_back(MissingError(word + " does not exist; name folders of runs or studies, such as runs/NAME"));
    else if (!std::filesystem::is_directory(word))
      paths.tables.push_back(word);
    else if (is_study_folder(word))
      paths.studies.push_back(word);
    else if (is_run_folder(word))
      paths.runs.push_back(word);
    else
      errors.push_back(DataError(what_is_no_run(word)));
  }
  if (!errors.empty()) throw merge_errors(errors);
  return paths;
}

Report read_report(const ReportedPaths& paths, const std::vector<ColumnMap>& maps) {
  if (paths.count() == 1 && !paths.studies.empty()) return read_study_report(paths.studies.front(), "");
  const bool alone = paths.count() == 1 && !paths.runs.empty();
  std::vector<ReportedRun> runs;
  std::vector<std::string> notes;
  for (const std::string& folder : paths.studies) add_study(read_study(folder), true, runs, notes);
  for (ReportedRun& run : read_lone_runs(paths.runs, alone)) runs.push_back(std::move(run));
  for (const std::string& table : paths.tables) runs.push_back(read_other_table(table, map_of(maps, table)));
  const std::string several = count_of(static_cast<int64_t>(runs.size()), "run");
  if (!alone) return report_of(several, std::move(runs), notes);
  const std::string name = runs.front().name;
  return {.title = name, .runs = std::move(runs), .study = std::nullopt};
}

Report read_study_report(const std::string& folder, const std::string& name) {
  const StudySource study = read_study(folder, name);
  std::vector<ReportedRun> runs;
  std::vector<std::string> notes;
  add_study(study, false, runs, notes);
  Report report = report_of(study.title, std::move(runs), notes);
  report.study->words = study.words;
  if (study.advice) report.study->advice = advice_of(*study.advice, report.runs);
  return report;
}

void write_report(const Report& report, const std::string& folder) {
  const std::string page = folder + "/report.html";
  const std::string table = folder + "/scaling.csv";
  const ReportedStudy study = report.study ? *report.study : reported_study(report.title, report.runs, {});
  const std::string rows = scaling_csv(rows_of(study));
  require_own(page, kReportMark);
  require_own(table, rows.substr(0, rows.find('\n')));
  make_folders(folder);
  write_file_atomically(table, rows);
  write_file_atomically(page, report_page(report));
}

}  // namespace dtrain
