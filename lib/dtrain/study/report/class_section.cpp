#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

constexpr size_t kMostClasses = 40;  // more rows than this nobody reads: then the first and the last of them

/// The first and the last half of the rows that are shown; sets the sentence's end if some were left out.
template <class T>
std::string shorten(std::vector<T>& rows) {
  if (rows.size() <= kMostClasses) return "";
  const size_t all = rows.size();
  rows.erase(rows.begin() + kMostClasses / 2, rows.end() - kMostClasses / 2);
  return " Shown are the first and the last " + std::to_string(kMostClasses / 2) + " of " +
         with_commas(static_cast<int64_t>(all)) + ".";
}

RowChart class_chart(const ReportedRun& run) {
  std::vector<ReportedValue> values = run.per_class;
  std::stable_sort(values.begin(), values.end(), [](const ReportedValue& a, const ReportedValue& b) {
    return a.value && (!b.value || *a.value > *b.value);
  });
  const std::string metric = column_words(run.per_class_of);
  RowChart chart{
      .title = metric + " of each class", .rows_are = "class", .x = {.title = metric}, .inks = {kind_ink(0)}};
  const bool has_intervals =
      std::any_of(values.begin(), values.end(), [](const ReportedValue& its) { return its.low && its.high; });
  chart.sentence =
      has_intervals ? "Dots are values, lines their 95 % intervals." : "Of the best epoch; dtrain eval adds intervals.";
  if (values.size() > 1 && values.front().value && values.back().value)
    chart.sentence = "From " + values.front().name + ", " + tidy_figure(*values.front().value) + ", to " +
                     values.back().name + ", " + tidy_figure(*values.back().value) + ". " + chart.sentence;
  if (std::all_of(values.begin(), values.end(), [](const ReportedValue& its) { return its.value.value_or(0) <= 1; }))
    chart.x.limit = 1;
  chart.sentence += shorten(values);
  for (const ReportedValue& its : values)
    chart.rows.push_back({.name = its.name,
                          .values = {its.value.value_or(kMissing)},
                          .low = its.low.value_or(kMissing),
                          .high = its.high.value_or(kMissing)});
  return chart;
}

RowChart count_chart(const ReportedRun& run) {
  std::vector<ClassCount> counts = run.counts;
  std::stable_sort(counts.begin(), counts.end(),
                   [](const ClassCount& a, const ClassCount& b) { return a.positives > b.positives; });
  RowChart chart{.title = "Samples of each class",
                 .rows_are = "class",
                 .x = {.title = "samples", .whole = true, .least = 0},
                 .parts = {"samples"},
                 .inks = {kind_ink(2)}};
  if (!counts.empty())
    chart.sentence = counts.front().name + " is the most frequent class, " + counts.back().name + " the rarest.";
  chart.sentence += shorten(counts);
  for (const ClassCount& count : counts) {
    const double share =
        count.known > 0 ? 100.0 * static_cast<double>(count.positives) / static_cast<double>(count.known) : 0;
    chart.rows.push_back({.name = count.name,
                          .values = {static_cast<double>(count.positives)},
                          .note = with_commas(count.positives) + " (" + fixed(share, share < 1 ? 1 : 0) + " %)"});
  }
  return chart;
}

}  // namespace

void write_evaluation(PageWriter& page, const ReportedRun& run) {
  if (!run.values.empty()) {
    FigureTable table{.headings = {"metric", "value", "95 % interval"}, .texts = {0}};
    for (const ReportedValue& its : run.values)
      table.rows.push_back({column_words(its.name), tidy_figure(its.value.value_or(kMissing)),
                            its.low && its.high ? tidy_figure(*its.low) + " to " + tidy_figure(*its.high) : "–"});
    page.table(table, "Metrics of " + run.split);
  }
  page.charts_begin();
  if (!run.per_class.empty()) page.chart(class_chart(run));
  if (!run.counts.empty()) page.chart(count_chart(run));
  page.charts_end();
}

}  // namespace dtrain
