#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/drawing/chart.hpp"
#include "dtrain/study/report/model.hpp"
#include "dtrain/study/report/page_writer.hpp"

// What report_page() puts together, one file for each part of the page.

namespace dtrain {

/// All of a run: what it is, what stands out, its charts, how it was run, what to type next.
void write_run(PageWriter& page, const ReportedRun& run);
/// Loss, metrics and learning rate by epoch.
void write_learning(PageWriter& page, const ReportedRun& run);
/// Where the time went, and the slowest ranks.
void write_times(PageWriter& page, const ReportedRun& run);
/// Values with intervals, of each class, and how often classes are there.
void write_evaluation(PageWriter& page, const ReportedRun& run);

/// All of a study; each of a few runs has its own charts besides, of many a line in the table.
void write_study(PageWriter& page, const Report& report);
/// Rates, speed-up, efficiency and serial fraction against the number of ranks.
void write_scaling(PageWriter& page, const ReportedStudy& study);
/// Loss and metric by epoch and by elapsed time.
void write_curves(PageWriter& page, const ReportedStudy& study);
/// Where a mean epoch of each point went.
void write_shares(PageWriter& page, const ReportedStudy& study);

/// 8.25 s as "8.3 s", 75 s as "1 min 15 s", 12,300 s as "3 h 25 min"; "–" for nothing.
std::string length_text(std::optional<double> seconds);

/// The unit in which times up to `most` seconds are drawn.
struct TimeUnit {
  double seconds = 1;
  std::string name = "s";
};
TimeUnit time_unit(double most);

/// "valid_auroc" as people read it: "valid auroc".
std::string column_words(const std::string& column);

/// Names for charts: without the parts ("key=value, …") that all begin with, and with at most 36 characters, unless two
/// would then be the same.
std::vector<std::string> short_names(const std::vector<std::string>& names);

/// Epochs from left to right.
Axis epoch_axis();
/// Linear; logarithmic for positive values of which the largest is more than fifty times the least.
Axis value_axis(const std::string& title, const std::vector<ChartLayer>& layers);

/// The ink of a part of an epoch's time, the same in all charts.
std::string part_ink(const std::string& part, size_t position);

}  // namespace dtrain
