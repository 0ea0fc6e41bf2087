#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

constexpr size_t kMostBars = 100;
constexpr size_t kMostRankRows = 16;

/// Of the epochs from `begin` on, `count` of them; missing ones do not count.
double mean_between(const std::vector<double>& values, size_t begin, size_t count) {
  double sum = 0, known = 0;
  for (size_t i = begin; i < std::min(begin + count, values.size()); ++i)
    if (std::isfinite(values[i])) {
      sum += values[i];
      ++known;
    }
  return known == 0 ? kMissing : sum / known;
}

/// "Of a mean epoch of 12 s compute takes 80 %, data wait 12 % and all-reduce 5 %."
std::string shares_text(const std::vector<TimePart>& times) {
  std::vector<std::pair<double, std::string>> means;
  double all = 0;
  for (const TimePart& part : times) {
    const size_t from = part.seconds.size() > 1 ? 1 : 0;  // the first epoch has its own costs
    const double mean = mean_between(part.seconds, from, part.seconds.size());
    if (!std::isfinite(mean) || mean <= 0) continue;
    means.emplace_back(mean, part.name);
    all += mean;
  }
  if (means.empty()) return "Seconds of each epoch by what they went for.";
  std::stable_sort(means.begin(), means.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> shares;
  for (size_t i = 0; i < std::min<size_t>(3, means.size()); ++i)
    shares.push_back(means[i].second + (i == 0 ? " takes " : " ") + fixed(100 * means[i].first / all, 0) + " %");
  return "Of a mean epoch after the first, " + length_text(all) + ", " + join_last(shares, "and") + ".";
}

Chart part_chart(const ReportedRun& run) {
  Chart chart{.title = "Time of each epoch", .sentence = shares_text(run.times), .x = epoch_axis()};
  const size_t together = std::max<size_t>(1, (run.epoch.size() + kMostBars - 1) / kMostBars);
  if (together > 1) chart.sentence += " Each bar is the mean of " + std::to_string(together) + " epochs.";
  double most = 0;
  for (size_t i = 0; i < run.times.size(); ++i) {
    ChartLayer layer{.name = run.times[i].name, .ink = part_ink(run.times[i].name, i), .stroke = Stroke::stacked_bars};
    for (size_t at = 0; at < run.epoch.size(); at += together)
      layer.points.push_back({.x = run.epoch[at], .y = mean_between(run.times[i].seconds, at, together)});
    chart.layers.push_back(layer);
  }
  for (size_t at = 0; at < (chart.layers.empty() ? 0 : chart.layers[0].points.size()); ++at)
    most = std::max(
        most, std::accumulate(chart.layers.begin(), chart.layers.end(), 0.0, [&](double sum, const ChartLayer& layer) {
          return std::isfinite(layer.points[at].y) ? sum + layer.points[at].y : sum;
        }));
  const TimeUnit unit = time_unit(most);
  for (ChartLayer& layer : chart.layers)
    for (ChartPoint& point : layer.points) point.y /= unit.seconds;
  chart.y = {.title = "time", .unit = unit.name, .least = 0};
  return chart;
}

Chart speed_chart(const ReportedRun& run) {
  Chart chart{.title = "Images per second", .x = epoch_axis(), .y = {.title = "images/s", .least = 0}};
  ChartLayer layer{.name = "images/s", .ink = kind_ink(0)};
  for (size_t i = 0; i < std::min(run.epoch.size(), run.images_per_s.size()); ++i)
    layer.points.push_back({.x = run.epoch[i], .y = run.images_per_s[i]});
  chart.layers = {layer};
  chart.sentence = run.result.images_per_s
                       ? "In epochs after the first " + tidy_figure(*run.result.images_per_s) + " on average."
                       : "Of training, by epoch.";
  return chart;
}

RowChart rank_chart(const ReportedRun& run) {
  RowChart chart{.title = "Slowest ranks",
                 .rows_are = "rank",
                 .x = {.title = "mean epoch", .unit = "s", .least = 0},
                 .parts = {"compute", "data wait", "all-reduce"}};
  for (size_t i = 0; i < chart.parts.size(); ++i) chart.inks.push_back(part_ink(chart.parts[i], i));
  const size_t shown = std::min(kMostRankRows, run.rank_times.size());
  for (size_t i = 0; i < shown; ++i) {
    const RankTime& rank = run.rank_times[i];
    chart.rows.push_back({.name = "rank " + std::to_string(rank.rank) + (rank.host.empty() ? "" : " @ " + rank.host),
                          .values = {rank.compute_s, rank.data_wait_s, rank.allreduce_s},
                          .note = fixed(rank.to_median, 2) + " ×",
                          .stands_out = rank.slow});
  }
  const auto slow =
      std::count_if(run.rank_times.begin(), run.rank_times.end(), [](const RankTime& rank) { return rank.slow; });
  chart.sentence = slow == 0 ? "No rank is slower than the median by more than a tenth in most epochs."
                             : count_of(slow, "rank is", "ranks are") +
                                   " slower than the median by more than a tenth in most epochs (bold).";
  chart.sentence += " At the right compute and data wait as multiples of the median rank's.";
  if (shown < run.rank_times.size())
    chart.sentence += " Shown are " + std::to_string(shown) + " of " +
                      with_commas(static_cast<int64_t>(run.rank_times.size())) + "; ranks.csv has all.";
  return chart;
}

}  // namespace

void write_times(PageWriter& page, const ReportedRun& run) {
  page.charts_begin();
  page.chart_if_any(part_chart(run));
  page.chart_if_any(speed_chart(run));
  if (run.rank_times.size() > 1) page.chart(rank_chart(run));
  page.charts_end();
}

}  // namespace dtrain
