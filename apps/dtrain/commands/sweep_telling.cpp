#include "commands/sweep_telling.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/study/remaining_time.hpp"

namespace dtrain {
namespace {

std::string rate_cell(const std::optional<double>& rate) {
  if (!rate) return "";
  return *rate < 100 ? fixed(*rate, 1) : with_commas(std::llround(*rate));
}

std::string number_text(const std::optional<double>& value, int digits) {
  return value ? short_number(*value, digits) : "";
}

std::string time_text(const std::optional<double>& seconds) { return seconds ? clock_text(*seconds) : ""; }

int64_t count_in(const std::vector<JudgedPoint>& points, PointState state) {
  return std::count_if(points.begin(), points.end(),
                       [&](const JudgedPoint& point) { return point.row.state == state; });
}

}  // namespace

std::vector<std::string> table_of_points(const std::vector<JudgedPoint>& points) {
  std::vector<std::vector<std::string>> table = {
      {"point", "ranks", "processes", "state", "metric", "best", "epoch", "images/s", "time"}};
  for (const JudgedPoint& point : points) {
    const SweepRow& row = point.row;
    const bool timed = row.timed();
    table.push_back({row.point.name, std::to_string(row.point.ranks), std::to_string(row.processes),
                     std::string(name_of(row.state)) +
                         (row.state == PointState::failed ? " (" + std::to_string(row.exit_code) + ")" : ""),
                     row.monitor.column, number_text(row.result.best, 4),
                     row.result.best_epoch > 0 ? std::to_string(row.result.best_epoch) : "",
                     timed ? rate_cell(row.result.images_per_s) : "", timed ? time_text(row.result.elapsed_s) : ""});
  }
  return table_lines(table);
}

std::vector<std::string> table_of_scaling(const std::vector<ScalingRow>& rows, const std::vector<JudgedPoint>& points) {
  std::set<int64_t> ranks;
  for (const ScalingRow& row : rows) ranks.insert(row.ranks);
  const bool says_more = ranks.size() > 1 || static_cast<int64_t>(rows.size()) < count_in(points, PointState::done);
  if (rows.empty() || !says_more) return {};
  std::vector<std::vector<std::string>> table = {
      {"series", "ranks", "runs", "best, mean ± sd", "images/s", "epochs/h", "speed-up", "efficiency"}};
  for (const ScalingRow& row : rows) {
    const std::string spread = row.metric.sd ? " ± " + short_number(*row.metric.sd, 4) : "";
    table.push_back({row.series, std::to_string(row.ranks), std::to_string(row.runs),
                     number_text(row.metric.mean, 4) + spread, rate_cell(row.images_per_s),
                     number_text(row.epochs_per_hour, 1), number_text(row.speedup, 2),
                     row.efficiency ? fixed(100 * *row.efficiency, 0) + " %" : ""});
  }
  return table_lines(table);
}

std::vector<std::string> notes_on(const std::vector<ScalingRow>& rows, const std::vector<JudgedPoint>& points) {
  std::vector<std::string> notes;
  const auto beside = std::find_if(points.begin(), points.end(), [](const JudgedPoint& p) { return p.row.jobs > 1; });
  if (beside != points.end())
    notes.push_back("points that ran " + std::to_string(beside->row.jobs) +
                    " at a time: what they learned counts, and their rates are left empty");
  const auto more = std::find_if(points.begin(), points.end(),
                                 [](const JudgedPoint& p) { return p.row.processes < p.row.point.ranks; });
  if (more != points.end())
    notes.push_back("points with more ranks than cores ran as logical ranks on " +
                    count_of(more->row.processes, "process", "processes") +
                    ": what they learned counts, and their rates are left empty");
  for (const ScalingRow& row : rows)
    if (row.speedup && *row.speedup > static_cast<double>(row.ranks))
      notes.push_back(row.series + ": the speed-up on " + count_of(row.ranks, "rank") +
                      " is above their number; was something else running on this machine, or did caches help?");
  if (std::any_of(points.begin(), points.end(), [](const JudgedPoint& p) {
        return p.row.state == PointState::done && p.row.timed() && p.row.result.epochs < 2;
      }))
    notes.emplace_back("rates are of steady epochs, all but the first: runs of one epoch have none");
  return notes;
}

std::vector<std::string> lines_of_expected(const StudyAsked& asked) {
  if (asked.words.expected.empty()) return {};
  std::vector<std::string> lines = {"expected, as published: " + asked.words.source};
  for (const std::string& figure : asked.words.expected) lines.push_back("  " + figure);
  return lines;
}

std::string count_of_states(const std::vector<JudgedPoint>& points) {
  const int64_t done = count_in(points, PointState::done);
  const int64_t failed = count_in(points, PointState::failed);
  const auto left = static_cast<int64_t>(points.size()) - done - failed;
  return std::to_string(done) + " done, " + (failed > 0 ? std::to_string(failed) + " failed, " : "") +
         std::to_string(left) + " to run";
}

std::string ready_in(const std::vector<JudgedPoint>& points, int64_t jobs) {
  std::vector<PointTime> times;
  for (const JudgedPoint& point : points) {
    const SweepRow& row = point.row;
    times.push_back({.ranks = row.point.ranks,
                     .over = row.state == PointState::done || row.state == PointState::failed,
                     .seconds = row.result.elapsed_s.value_or(0),
                     .share = static_cast<double>(row.result.epochs) / static_cast<double>(point.epochs)});
  }
  const std::optional<double> left = remaining_seconds(times);
  return left && *left > 0 ? "ready in about " + clock_text(*left / static_cast<double>(jobs)) : "";
}

ProgressFields sweep_fields(const std::vector<JudgedPoint>& points, const std::vector<const JudgedPoint*>& running,
                            int64_t jobs) {
  const int64_t done = count_in(points, PointState::done);
  const int64_t failed = count_in(points, PointState::failed);
  ProgressFields fields = {
      {std::to_string(done) + " of " + count_of(static_cast<int64_t>(points.size()), "point") + " done", 4}};
  if (failed > 0) fields.push_back({std::to_string(failed) + " failed", 3});
  for (const JudgedPoint* point : running) {
    fields.push_back({point->row.point.name, 1});
    fields.push_back({std::to_string(point->row.result.epochs) + "/" + count_of(point->epochs, "epoch"), 2});
  }
  if (const std::string ready = ready_in(points, jobs); !ready.empty()) fields.push_back({ready, 3});
  return fields;
}

std::string what_came_out(const SweepRow& row) {
  std::vector<std::string> parts;
  if (row.result.best)
    parts.push_back(row.monitor.column + " " + short_number(*row.result.best, 4) + " in epoch " +
                    std::to_string(row.result.best_epoch));
  if (row.timed() && row.result.images_per_s) parts.push_back(rate_cell(row.result.images_per_s) + " images/s");
  if (row.result.elapsed_s) parts.push_back(clock_text(*row.result.elapsed_s));
  return join(parts, "  ");
}

const JudgedPoint* best_of(const std::vector<JudgedPoint>& points) {
  const JudgedPoint* best = nullptr;
  for (const JudgedPoint& point : points) {
    const SweepRow& row = point.row;
    if (row.state != PointState::done || !row.result.best) continue;
    if (best != nullptr && best->row.monitor.column != row.monitor.column) return nullptr;
    const bool better = best == nullptr || (row.monitor.larger_is_better ? *row.result.best > *best->row.result.best
                                                                         : *row.result.best < *best->row.result.best);
    if (better) best = &point;
  }
  return best;
}

}  // namespace dtrain
