#include <algorithm>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/study/rate_advice.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

constexpr size_t kMostWithCharts = 8;  // runs; of more, dtrain report RUN shows each on its own page

std::string figure_or_dash(std::optional<double> value) { return tidy_figure(value.value_or(kMissing)); }

std::vector<std::pair<std::string, std::string>> study_facts(const Report& report) {
  const auto finished =
      std::count_if(report.runs.begin(), report.runs.end(), [](const ReportedRun& run) { return run.finished; });
  const auto all = static_cast<int64_t>(report.runs.size());
  std::vector<std::pair<std::string, std::string>> facts{
      {"Runs", finished == all ? with_commas(all) + ", all finished"
                               : with_commas(finished) + " of " + with_commas(all) + " finished"}};
  std::set<int64_t> ranks;
  std::set<std::string> devices;
  for (const ReportedRun& run : report.runs) {
    ranks.insert(run.ranks);
    if (!run.device.empty()) devices.insert(run.device);
  }
  std::vector<std::string> counts;
  for (const int64_t count : ranks) counts.push_back(with_commas(count));
  facts.emplace_back("Ranks", join(counts, ", "));
  if (report.study->series.size() > 1) facts.emplace_back("Series", std::to_string(report.study->series.size()));
  if (!devices.empty())
    facts.emplace_back("Device", join(std::vector<std::string>(devices.begin(), devices.end()), ", "));
  return facts;
}

/// "best valid auroc" if all series have the same monitor.
std::string metric_heading(const ReportedStudy& study) {
  std::set<std::string> columns;
  for (const ReportedSeries& series : study.series) columns.insert(series.monitor.column);
  return columns.size() == 1 && !columns.begin()->empty() ? "best " + column_words(*columns.begin()) : "best metric";
}

FigureTable scaling_table(const ReportedStudy& study) {
  FigureTable table{.headings = {"series", "ranks", "nodes", "runs", "epochs/hour", "images/s", "time to train",
                                 "speed-up", "efficiency", "serial fraction", metric_heading(study), "± sd"},
                    .texts = {0}};
  for (const ReportedSeries& series : study.series)
    for (const SeriesPoint& point : series.points) {
      const ScalingRow& row = point.figures;
      const auto percent = [](std::optional<double> share) {
        if (!share) return std::string("–");
        const std::string text = fixed(100 * *share, 1);
        return (text == "-0.0" ? "0.0" : text) + " %";
      };
      table.rows.push_back(
          {series.name, with_commas(row.ranks), row.nodes > 0 ? with_commas(row.nodes) : "–", with_commas(row.runs),
           figure_or_dash(row.epochs_per_hour), figure_or_dash(row.images_per_s), length_text(row.time_to_train_s),
           figure_or_dash(row.speedup) + (point.above_ideal ? " (above ideal)" : ""), percent(row.efficiency),
           percent(point.serial_fraction), figure_or_dash(row.metric.mean), figure_or_dash(row.metric.sd)});
    }
  return table;
}

FigureTable runs_table(const Report& report) {
  FigureTable table{
      .headings = {"run", "series", "ranks", "seed", "fold", "state", "epochs", "best", "in epoch", "time", "images/s"},
      .texts = {0, 1, 5}};
  for (const ReportedRun& run : report.runs)
    table.rows.push_back({run.name, run.series, with_commas(run.ranks), run.seed ? std::to_string(*run.seed) : "–",
                          run.fold > 0 ? std::to_string(run.fold) : "–", run.state, std::to_string(run.epoch.size()),
                          figure_or_dash(run.result.best),
                          run.result.best ? std::to_string(run.result.best_epoch) : "–",
                          length_text(run.result.elapsed_s), figure_or_dash(run.result.images_per_s)});
  return table;
}

/// Whether any point's time is known by parts.
bool has_parts(const ReportedStudy& study) {
  return std::any_of(study.series.begin(), study.series.end(), [](const ReportedSeries& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const SeriesPoint& point) { return point.times.size() > 1; });
  });
}

ReportedStudy with_short_names(const ReportedStudy& study) {
  std::vector<std::string> names;
  for (const ReportedSeries& series : study.series) names.push_back(series.name);
  names = short_names(names);
  ReportedStudy out = study;
  for (size_t i = 0; i < names.size(); ++i) out.series[i].name = names[i];
  return out;
}

bool has_several_counts(const Report& report) {
  return std::any_of(report.runs.begin(), report.runs.end(),
                     [&](const ReportedRun& run) { return run.ranks != report.runs[0].ranks; });
}

void write_advice(PageWriter& page, const Report& report) {
  const RateAdvice& advice = *report.study->advice;
  std::vector<std::vector<std::string>> rows = advice_table(advice, report.runs.front().monitor.column);
  FigureTable table{.headings = rows.front(), .texts = {0}};
  table.rows.assign(rows.begin() + 1, rows.end());
  page.section("Advice");
  page.sentences(sentences_on(advice), "says");
  page.table(table, "Short runs: each rule for the learning rate");
}

}  // namespace

void write_study(PageWriter& page, const Report& report) {
  const ReportedStudy& study = *report.study;
  const ReportedStudy drawn = with_short_names(study);
  if (study.advice && !report.runs.empty()) write_advice(page, report);
  page.section("Overview");
  if (report.runs.empty()) {
    page.paragraph("No run has begun.");
    page.sentences(study.notes, "notes");
    return;
  }
  page.facts(study_facts(report));
  for (const ReportedSeries& series : study.series) {
    if (study.series.size() > 1 && !series.sentences.empty()) page.heading(series.name);
    page.sentences(series.sentences, "says");
  }
  page.sentences(study.notes, "notes");
  if (!study.words.expected.empty()) page.heading("As published: " + study.words.source);
  page.sentences(study.words.expected, "says");
  page.section(has_several_counts(report) ? "Scaling" : "Results");
  write_scaling(page, drawn);
  page.table(scaling_table(study), "Each number of ranks");
  page.section("Learning");
  write_curves(page, drawn);
  if (has_parts(study)) {
    page.section("Where the time went");
    write_shares(page, drawn);
  }
  page.section("Runs");
  page.table(runs_table(report), "Each run");
  if (report.runs.size() > kMostWithCharts) return;
  for (const ReportedRun& run : report.runs) {
    page.fold_begin(run.name + ": " + run.state);
    page.sentences(run.sentences, "says");
    page.sentences(run.notes, "notes");
    write_learning(page, run);
    write_times(page, run);
    page.fold_end();
  }
}

}  // namespace dtrain
