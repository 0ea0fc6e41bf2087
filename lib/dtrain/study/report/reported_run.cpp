#include "dtrain/study/report/reported_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/metrics/options.hpp"
#include "dtrain/study/report/evaluation.hpp"
#include "dtrain/study/report/rank_times.hpp"
#include "dtrain/study/report/sentences.hpp"

namespace dtrain {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// A column of seconds within epoch_seconds.
struct PartName {
  const char* column;
  const char* name;
};
constexpr std::array<PartName, 5> kParts = {{{"compute_s", "compute"},
                                             {"data_wait_s", "data wait"},
                                             {"allreduce_s", "all-reduce"},
                                             {"imbalance_s", "imbalance"},
                                             {"update_s", "update"}}};

std::vector<double> column_of(const NumberTable& epochs, const std::string& name) {
  const std::vector<double>* values = epochs.column(name);
  return values == nullptr ? std::vector<double>(epochs.rows(), kUnknown) : *values;
}

bool is_known(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

void add_part(std::vector<TimePart>& parts, const std::string& name, std::vector<double> seconds) {
  if (std::any_of(seconds.begin(), seconds.end(), [](double value) { return value > 0; }))
    parts.push_back({name, std::move(seconds)});
}

std::vector<TimePart> times_of_epochs(const NumberTable& epochs) {
  std::vector<TimePart> parts;
  std::vector<double> rest = column_of(epochs, "epoch_seconds");
  for (const PartName& part : kParts) {
    std::vector<double> seconds = column_of(epochs, part.column);
    for (size_t i = 0; i < rest.size(); ++i)
      if (std::isfinite(seconds[i])) rest[i] -= seconds[i];
    add_part(parts, part.name, std::move(seconds));
  }
  for (double& seconds : rest)
    if (seconds < 0) seconds = 0;  // means over ranks and rank 0's clock differ a little
  add_part(parts, epochs.column("compute_s") == nullptr ? "training" : "other", std::move(rest));
  add_part(parts, "validation", column_of(epochs, "valid_seconds"));
  return parts;
}

// Tables of other tools may have the time of the whole run in every row, or none.
std::vector<double> elapsed_of(const NumberTable& epochs) {
  std::vector<double> elapsed = column_of(epochs, "elapsed_s");
  const bool rises = elapsed.size() < 2 || std::is_sorted(elapsed.begin(), elapsed.end(), std::less_equal<>());
  if (is_known(elapsed) && rises) return elapsed;
  const std::vector<double> train = column_of(epochs, "epoch_seconds");
  const std::vector<double> valid = column_of(epochs, "valid_seconds");
  double sum = 0;
  for (size_t i = 0; i < elapsed.size(); ++i) {
    sum += train[i] + (std::isfinite(valid[i]) ? valid[i] : 0);
    elapsed[i] = sum;
  }
  return elapsed;
}

bool is_metric(const std::string& column) {
  return (column.starts_with("train_") || column.starts_with("valid_")) && column != "train_loss" &&
         column != "valid_loss" && column != "valid_seconds";
}

// The first metric of a task decides by default; another tool may have one of its own, or the loss alone.
Monitor guessed_monitor(const NumberTable& epochs) {
  for (const Metric* metric : epoch_metrics())
    if (epochs.column("valid_" + metric->name) != nullptr)
      return {.column = "valid_" + metric->name, .larger_is_better = metric->larger_is_better};
  for (const std::string& column : epochs.columns)
    if (column.starts_with("valid_") && is_metric(column)) return {.column = column, .larger_is_better = true};
  for (const char* loss : {"valid_loss", "train_loss"})
    if (epochs.column(loss) != nullptr) return {.column = loss, .larger_is_better = false};
  return {.column = ""};
}

void take_curves(const NumberTable& epochs, ReportedRun& report) {
  report.epoch = column_of(epochs, "epoch");
  report.elapsed_s = elapsed_of(epochs);
  report.train_loss = column_of(epochs, "train_loss");
  report.valid_loss = column_of(epochs, "valid_loss");
  report.learning_rate = column_of(epochs, "learning_rate");
  report.images_per_s = column_of(epochs, "images_per_s");
  for (size_t i = 0; i < epochs.columns.size(); ++i)
    if (is_metric(epochs.columns[i])) report.metrics.push_back({epochs.columns[i], epochs.values[i]});
  report.times = times_of_epochs(epochs);
}

std::vector<std::pair<std::string, std::string>> manifest_of(const RunRecord& run) {
  std::vector<std::pair<std::string, std::string>> manifest;
  std::set<std::string> taken;
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty() && taken.insert(key).second) manifest.emplace_back(key, value);
  };
  const auto add_count = [&](const std::string& key) {
    if (const auto found = run.counts.find(key); found != run.counts.end()) add(key, std::to_string(found->second));
  };
  add("started", run.text("started"));
  for (const char* key : {"epochs", "steps", "ranks", "logical_ranks"}) add_count(key);
  std::vector<std::string> hosts;
  for (const auto& [host, ranks] : run.hosts) hosts.push_back(host + " × " + std::to_string(ranks));
  add("hosts", join(hosts, "; "));
  for (const auto& [key, value] : run.versions) add(key, value);
  for (const char* key : {"precision", "weights", "transport"}) add(key, run.text(key));
  for (const auto& [key, value] : run.texts) add(key, value);
  for (const auto& [key, unused] : run.counts) add_count(key);
  return manifest;
}

// A tool's table that has no times since the start: the sum of its epochs.
void complete_time(const RunRecord& run, ReportedRun& report) {
  if (report.result.elapsed_s || report.elapsed_s.empty() || !run.done) return;
  if (std::isfinite(report.elapsed_s.back())) report.result.elapsed_s = report.elapsed_s.back();
}

std::vector<MeanTime> mean_times(const ReportedRun& run, const SteadyEpochs& steady) {
  std::vector<MeanTime> means;
  for (const TimePart& part : run.times) {
    double sum = 0;
    double count = 0;
    for (size_t i = 0; i < part.seconds.size(); ++i) {
      if (!steady.has(run.epoch[i]) || !std::isfinite(part.seconds[i])) continue;
      sum += part.seconds[i];
      count += 1;
    }
    if (count > 0) means.push_back({part.name, sum / count});
  }
  return means;
}

}  // namespace

ReportedRun reported_run(const RunRecord& run, const RunSource& source, const SteadyEpochs& steady) {
  ReportedRun report;
  report.folder = run.folder;
  report.name = source.name.empty() ? last_part(run.folder) : source.name;
  report.state = !source.state.empty() ? source.state : run.done ? "finished" : "not finished";
  report.finished = report.state == "finished";
  report.series = source.series;
  report.monitor = source.monitor.column.empty() ? guessed_monitor(run.epochs) : source.monitor;
  report.result = result_of(run, report.monitor, steady);
  report.logical_ranks = report.result.logical_ranks;
  report.processes = report.result.ranks;
  report.nodes = report.result.nodes;
  report.device = report.result.device;
  report.ranks = source.ranks > 0 ? source.ranks : std::max<int64_t>(1, report.processes);
  report.timed = source.timed;
  report.seed = source.seed;
  report.fold = source.fold;
  report.notes = run.notes;
  for (const FileFault& fault : run.faults) report.notes.push_back(fault.text() + "; what is damaged is left out");
  take_curves(run.epochs, report);
  report.mean_times = mean_times(report, steady);
  complete_time(run, report);
  report.rank_times = rank_times_of(run);
  report.manifest = manifest_of(run);
  take_class_curves(report);
  return report;
}

ReportedRun read_reported_run(const RunSource& source, bool counted) {
  const RunRecord run = look_at_run(source.path, {.steps = false, .ranks = true});
  ReportedRun report = reported_run(run, source);
  if (run.epochs.rows() == 0) report.notes.push_back(run.folder + " has no finished epoch yet");
  take_evaluation(report, counted);
  report.sentences = sentences_on(report);
  return report;
}

}  // namespace dtrain
