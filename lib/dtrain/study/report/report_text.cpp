#include "dtrain/study/report/report_text.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/study/report/sentences.hpp"

namespace dtrain {
namespace {

using Lines = std::vector<std::string>;
using Table = std::vector<Lines>;

void add_table(const Table& table, Lines& lines) {
  for (const std::string& row : table_lines(table)) lines.push_back("  " + row);
  lines.emplace_back();
}

void add_sentences(const std::string& title, const Lines& sentences, Lines& lines) {
  if (sentences.empty()) return;
  if (!title.empty()) lines.push_back(title);
  for (const std::string& sentence : sentences) lines.push_back("  " + sentence);
  lines.emplace_back();
}

std::string text_of(const std::optional<double>& value, int digits) {
  return value && std::isfinite(*value) ? short_number(*value, digits) : "";
}

std::string rate_text(const std::optional<double>& rate) {
  return !rate ? "" : *rate < 100 ? fixed(*rate, 1) : *rate < 1e12 ? with_commas(std::llround(*rate)) : shortest(*rate);
}

std::string count_text(int64_t count) { return count > 0 ? std::to_string(count) : ""; }

void add_series(const ReportedSeries& series, Lines& lines) {
  lines.push_back(series.name + (series.monitor.column.empty() ? "" : ", " + series.monitor.column));
  Table table = {{"ranks", "V", "nodes", "runs", "images/s", "epochs/h", "time to train", "speed-up", "start to end",
                  "efficiency", "serial", "best, mean ± sd"}};
  for (const SeriesPoint& point : series.points) {
    const ScalingRow& row = point.figures;
    table.push_back({std::to_string(row.ranks), count_text(point.logical_ranks), count_text(row.nodes),
                     std::to_string(point.runs.size()), rate_text(row.images_per_s), text_of(row.epochs_per_hour, 1),
                     row.time_to_train_s ? seconds_text(*row.time_to_train_s) : "",
                     text_of(row.speedup, 2) + (point.above_ideal ? " (above)" : ""),
                     text_of(point.speedup_of_total, 2), row.efficiency ? fixed(100 * *row.efficiency, 1) + " %" : "",
                     text_of(point.serial_fraction, 4), spread_text(row.metric, 4)});
  }
  add_table(table, lines);
  add_sentences("", series.sentences, lines);
}

std::string interval_text(const ReportedValue& value) {
  return value.low && value.high ? short_number(*value.low, 4) + " – " + short_number(*value.high, 4) : "";
}

void add_values(const ReportedRun& run, Lines& lines) {
  if (!run.values.empty()) {
    Table table = {{run.split, "value", "95 % interval"}};
    for (const ReportedValue& value : run.values)
      table.push_back({value.name, text_of(value.value, 4), interval_text(value)});
    add_table(table, lines);
  }
  if (run.per_class.empty()) return;
  Table table = {{"class", run.per_class_of, "95 % interval", "positives", "known"}};
  for (const ReportedValue& value : run.per_class) {
    const auto count = std::find_if(run.counts.begin(), run.counts.end(),
                                    [&](const ClassCount& its) { return its.name == value.name; });
    const bool counted = count != run.counts.end();
    table.push_back({value.name, value.value ? text_of(value.value, 4) : "undefined", interval_text(value),
                     counted ? with_commas(count->positives) : "", counted ? with_commas(count->known) : ""});
  }
  add_table(table, lines);
}

void add_ranks(const ReportedRun& run, Lines& lines) {
  constexpr size_t kMost = 8;
  if (run.rank_times.empty()) return;
  Table table = {{"rank", "host", "to median", "compute s", "data wait s", "step ms", "p95"}};
  for (size_t i = 0; i < std::min(kMost, run.rank_times.size()); ++i) {
    const RankTime& rank = run.rank_times[i];
    table.push_back({std::to_string(rank.rank), rank.host, fixed(rank.to_median, 2) + (rank.slow ? " slow" : ""),
                     short_number(rank.compute_s, 3), short_number(rank.data_wait_s, 3),
                     text_of(rank.step_ms_median, 2), text_of(rank.step_ms_p95, 2)});
  }
  add_table(table, lines);
}

void add_run(const ReportedRun& run, Lines& lines) {
  const RunResult& result = run.result;
  Table table = {{"state", "epochs", "ranks", "V", "nodes", "device", "images/s", "epochs/h", "time"},
                 {run.state, std::to_string(result.epochs), std::to_string(run.ranks), count_text(run.logical_ranks),
                  count_text(run.nodes), run.device, rate_text(result.images_per_s), text_of(result.epochs_per_hour, 1),
                  result.elapsed_s ? seconds_text(*result.elapsed_s) : ""}};
  add_table(table, lines);
  add_values(run, lines);
  add_ranks(run, lines);
  add_sentences("", run.sentences, lines);
}

}  // namespace

std::vector<std::string> report_text(const Report& report) {
  Lines lines = {report.title, ""};
  Lines notes;
  if (!report.study) {
    for (const ReportedRun& run : report.runs) add_run(run, lines);
  } else {
    if (report.study->advice && !report.runs.empty()) {
      lines.emplace_back("Advice");
      add_table(advice_table(*report.study->advice, report.runs.front().monitor.column), lines);
      add_sentences("", sentences_on(*report.study->advice), lines);
    }
    for (const ReportedSeries& series : report.study->series) add_series(series, lines);
    add_sentences("", report.study->sentences, lines);
    const StudyWords& words = report.study->words;
    add_sentences("As published: " + words.source, words.expected, lines);
    notes = report.study->notes;
  }
  for (const ReportedRun& run : report.runs) notes.insert(notes.end(), run.notes.begin(), run.notes.end());
  add_sentences("Notes", notes, lines);
  lines.pop_back();
  return lines;
}

}  // namespace dtrain
