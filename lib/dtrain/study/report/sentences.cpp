#include "dtrain/study/report/sentences.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "dtrain/base/short_number.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/metrics/interval.hpp"
#include "dtrain/study/report/rank_times.hpp"

namespace dtrain {
namespace {

using Sentences = std::vector<std::string>;

std::string percent(double share) { return fixed(100 * share, 0) + " %"; }
std::string on_ranks(int64_t ranks) { return "on " + count_of(ranks, "rank"); }

// A part that takes long, and what helps.
const std::map<std::string, std::string>& cures() {
  static const std::map<std::string, std::string> kCures = {
      {"data wait", "the loader does not keep up: more data.loader.threads, or dtrain pack, shorten it"},
      {"all-reduce",
       "sums of gradients that backward does not hide: a larger batch for each rank, or a faster network, "
       "shortens it"},
      {"imbalance", "ranks wait for the slowest one"},
      {"validation", "evaluating the validation part: a smaller one, or a larger batch there, shortens it"}};
  return kCures;
}

double sum_of(const std::vector<MeanTime>& times) {
  double sum = 0;
  for (const MeanTime& time : times) sum += time.seconds;
  return sum;
}

std::string slow_rank_text(const RankTime& rank, const std::vector<RankTime>& all) {
  double compute = 0;
  double wait = 0;
  for (const RankTime& one : all) {
    compute += one.compute_s / static_cast<double>(all.size());
    wait += one.data_wait_s / static_cast<double>(all.size());
  }
  const bool loads = rank.data_wait_s - wait > rank.compute_s - compute;
  return "rank " + std::to_string(rank.rank) + (rank.host.empty() ? "" : " on " + rank.host) + " takes " +
         fixed(rank.to_median, 2) + " times the median of all ranks, " +
         (loads ? "most of it waiting for data" : "most of it computing") + "; the others wait for it";
}

// Of the first few slow ranks.
void add_slow_ranks(const ReportedRun& run, const std::string& before, Sentences& sentences) {
  constexpr int64_t kMost = 3;
  int64_t told = 0;
  for (const RankTime& rank : run.rank_times)
    if (rank.slow && told++ < kMost) sentences.push_back(before + slow_rank_text(rank, run.rank_times) + ".");
}

void add_times(const ReportedRun& run, Sentences& sentences) {
  const double whole = sum_of(run.mean_times);
  if (whole <= 0) return;
  std::vector<std::string> shares;
  for (const MeanTime& time : run.mean_times) shares.push_back(time.name + " " + percent(time.seconds / whole));
  sentences.push_back("A steady epoch takes " + seconds_text(whole) +
                      (shares.size() > 1 ? ": " + join(shares, ", ") : "") + ".");
  for (const MeanTime& time : run.mean_times) {
    const auto cure = cures().find(time.name);
    const bool between_ranks = time.name == "all-reduce" || time.name == "imbalance";
    if (cure == cures().end() || time.seconds <= kNotableShare * whole || (between_ranks && run.ranks == 1)) continue;
    sentences.push_back(percent(time.seconds / whole) + " of it are " + time.name + ": " + cure->second + ".");
  }
  double first = 0;
  for (const TimePart& part : run.times)
    if (std::isfinite(part.seconds.front())) first += part.seconds.front();
  if (first > kNotableStart * whole)
    sentences.push_back("The first epoch took " + seconds_text(first) + ", " + fixed(first / whole, 1) +
                        " times a steady one; rates leave it out.");
}

// Points with a rate, ascending by ranks.
std::vector<const SeriesPoint*> timed_points(const ReportedSeries& series) {
  std::vector<const SeriesPoint*> points;
  for (const SeriesPoint& point : series.points)
    if (point.figures.epochs_per_hour && *point.figures.epochs_per_hour > 0) points.push_back(&point);
  return points;
}

double epoch_seconds(const SeriesPoint& point) { return 3600 / *point.figures.epochs_per_hour; }

// Beyond an ideal division of its work among more ranks, by part, largest first.
std::vector<MeanTime> lost_time(const SeriesPoint& few, const SeriesPoint& many) {
  const double share = static_cast<double>(few.figures.ranks) / static_cast<double>(many.figures.ranks);
  std::vector<MeanTime> lost;
  for (const MeanTime& part : many.times) {
    double before = 0;
    for (const MeanTime& one : few.times)
      if (one.name == part.name) before = one.seconds;
    lost.push_back({part.name, part.seconds - before * share});
  }
  std::stable_sort(lost.begin(), lost.end(),
                   [](const MeanTime& a, const MeanTime& b) { return a.seconds > b.seconds; });
  return lost;
}

// Which share grew.
std::string why_lost(const SeriesPoint& few, const SeriesPoint& many) {
  const std::vector<MeanTime> lost = lost_time(few, many);
  if (lost.size() < 2) return " Its tables do not say where the time goes.";
  const double sum = sum_of(lost);
  if (sum <= 0) return "";
  const auto share_of = [](const SeriesPoint& point, const std::string& name) {
    double seconds = 0;
    for (const MeanTime& part : point.times)
      if (part.name == name) seconds = part.seconds;
    return percent(seconds / sum_of(point.times));
  };
  std::vector<std::string> parts;
  double told = 0;
  for (const MeanTime& part : lost) {
    if (told > 0.5 * sum || part.seconds <= 0) break;
    told += part.seconds;
    parts.push_back(part.name + " (" + share_of(few, part.name) + " of an epoch → " + share_of(many, part.name) + ")");
  }
  return " Of the " + seconds_text(sum) + " beyond that, " + seconds_text(told) +
         (parts.size() > 1 ? " are " : " is ") + join(parts, ", ") + ".";
}

void add_what_pays(const ReportedSeries& series, Sentences& sentences) {
  const std::vector<const SeriesPoint*> points = timed_points(series);
  if (points.size() < 2) return;
  if (!series.pays_up_to) {
    const SeriesPoint& last = *points.back();
    std::string text = "More ranks pay up to " + std::to_string(last.figures.ranks) + ", the most that were measured";
    if (last.figures.speedup)
      text += ": the speed-up there is " + fixed(*last.figures.speedup, 2) + ", an efficiency of " +
              percent(*last.figures.efficiency);
    sentences.push_back(text + ".");
    return;
  }
  const auto knee = std::find_if(points.begin(), points.end(),
                                 [&](const SeriesPoint* point) { return point->figures.ranks == *series.pays_up_to; });
  const SeriesPoint& few = **knee;
  const SeriesPoint& many = **(knee + 1);
  const double ideal =
      epoch_seconds(few) * static_cast<double>(few.figures.ranks) / static_cast<double>(many.figures.ranks);
  sentences.push_back("After " + count_of(few.figures.ranks, "rank") + " more do not pay: " +
                      on_ranks(many.figures.ranks) + " an epoch takes " + seconds_text(epoch_seconds(many)) + ", on " +
                      std::to_string(few.figures.ranks) + " " + seconds_text(epoch_seconds(few)) +
                      "; an ideal division would take " + seconds_text(ideal) + "." + why_lost(few, many));
}

void add_speedups(const ReportedSeries& series, Sentences& sentences) {
  const std::vector<const SeriesPoint*> points = timed_points(series);
  if (!series.has_one_rank && points.size() > 1)
    sentences.emplace_back(
        "No finished run on 1 rank has a rate, so there is no speed-up, efficiency or serial fraction.");
  std::vector<std::string> above;
  for (const SeriesPoint& point : series.points)
    if (point.above_ideal) above.push_back(fixed(*point.figures.speedup, 2) + " " + on_ranks(point.figures.ranks));
  if (!above.empty())
    sentences.push_back("A speed-up of " + join_last(above, "and") +
                        " is above the number of ranks: something besides them has changed, such as hardware, caches, "
                        "or batches that are dropped.");
  if (points.empty()) return;
  const SeriesPoint& last = *points.back();
  if (last.figures.ranks > 1 && last.speedup_of_total && last.figures.speedup &&
      *last.speedup_of_total < 0.98 * *last.figures.speedup)
    sentences.push_back("From start to end the speed-up " + on_ranks(last.figures.ranks) + " is " +
                        fixed(*last.speedup_of_total, 2) + " instead of " + fixed(*last.figures.speedup, 2) +
                        ": start and first epoch do not get shorter.");
}

void add_serial_fraction(const ReportedSeries& series, Sentences& sentences) {
  std::vector<const SeriesPoint*> points;
  for (const SeriesPoint& point : series.points)
    if (point.serial_fraction) points.push_back(&point);
  if (points.size() < 2) return;
  const double first = *points.front()->serial_fraction;
  const double last = *points.back()->serial_fraction;
  const std::string values = "The serial fraction (Karp–Flatt) is " + fixed(first, 3) + " " +
                             on_ranks(points.front()->figures.ranks) + " and " + fixed(last, 3) + " on " +
                             std::to_string(points.back()->figures.ranks) + ": ";
  if (last <= kNotableFraction)
    sentences.push_back(values + "next to nothing of the work does not divide.");
  else if (last > kFractionGrows * std::max(first, 0.0) && last - first > kNotableFraction)
    sentences.push_back(values + "it grows, so what more ranks cost each other is what limits, not a serial part.");
  else
    sentences.push_back(values + "it does not grow, so what limits is a part of the work that does not divide.");
}

/// How far the mean of the metric is below the one on the fewest ranks; positive: worse.
struct Fall {
  double by = 0;
  std::optional<double> half = std::nullopt;  ///< half of Welch's interval of 95 %; nothing for single runs

  bool beyond_spread() const { return half && std::abs(by) > *half; }
};

Fall fall_of(const Spread& few, const Spread& many, bool larger_is_better) {
  Fall fall{.by = larger_is_better ? *few.mean - *many.mean : *many.mean - *few.mean};
  if (!few.sd || !many.sd) return fall;
  const double a = *few.sd * *few.sd / static_cast<double>(few.count);
  const double b = *many.sd * *many.sd / static_cast<double>(many.count);
  if (a + b == 0) {
    fall.half = 0;
    return fall;
  }
  const double degrees =
      (a + b) * (a + b) / (a * a / static_cast<double>(few.count - 1) + b * b / static_cast<double>(many.count - 1));
  fall.half = t_quantile(std::max<int64_t>(1, static_cast<int64_t>(degrees))) * std::sqrt(a + b);
  return fall;
}

void add_quality(const ReportedSeries& series, const std::vector<ReportedRun>& runs, Sentences& sentences) {
  std::vector<const SeriesPoint*> points;
  for (const SeriesPoint& point : series.points)
    if (point.figures.metric.mean) points.push_back(&point);
  if (points.size() < 2) return;
  const SeriesPoint& few = *points.front();
  const SeriesPoint& many = *points.back();
  const bool same_v = few.logical_ranks > 0 && few.logical_ranks == many.logical_ranks;
  const Fall fall = fall_of(few.figures.metric, many.figures.metric, series.monitor.larger_is_better);
  if (fall.by == 0)
    return sentences.push_back(series.monitor.column + " is the same on " + std::to_string(few.figures.ranks) +
                               " and " + std::to_string(many.figures.ranks) + " ranks" +
                               (same_v ? ": V is " + std::to_string(few.logical_ranks) + " on both." : "."));
  const bool folds = std::any_of(many.runs.begin(), many.runs.end(), [&](size_t i) { return runs[i].fold > 0; });
  const std::string spread = folds ? "the spread over seeds and folds" : "the seeds' spread";
  std::string text = series.monitor.column + " is " + spread_text(few.figures.metric, 4) + " " +
                     on_ranks(few.figures.ranks) + " and " + spread_text(many.figures.metric, 4) + " on " +
                     std::to_string(many.figures.ranks) + ": " + (fall.by > 0 ? "worse" : "better") + " by " +
                     short_number(std::abs(fall.by), 4);
  if (fall.half)
    text += fall.beyond_spread() ? ", more than " + spread : ", within " + spread;
  else
    text += "; of single runs, so it is not known whether seeds differ as much (dtrain sweep --repeat 3)";
  if (fall.half) text += " (95 % interval ± " + short_number(*fall.half, 4) + ")";
  sentences.push_back(text + ".");
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 100) return clock_text(seconds);
  return fixed(seconds, seconds < 0.1 ? 4 : seconds < 10 ? 2 : 1) + " s";
}

std::string spread_text(const Spread& spread, int digits) {
  if (!spread.mean) return "";
  return short_number(*spread.mean, digits) + (spread.sd ? " ± " + short_number(*spread.sd, digits) : "");
}

std::vector<std::string> sentences_on(const ReportedRun& run) {
  Sentences sentences;
  if (run.result.best)
    sentences.push_back("The best " + run.monitor.column + " is " + short_number(*run.result.best, 4) + ", in epoch " +
                        std::to_string(run.result.best_epoch) + " of " + shortest(run.epoch.back()) + ".");
  add_times(run, sentences);
  add_slow_ranks(run, "", sentences);
  return sentences;
}

std::vector<std::string> sentences_on(const ReportedSeries& series, const std::vector<ReportedRun>& runs) {
  Sentences sentences;
  add_what_pays(series, sentences);
  add_speedups(series, sentences);
  add_serial_fraction(series, sentences);
  add_quality(series, runs, sentences);
  for (const SeriesPoint& point : series.points)
    for (const size_t i : point.runs) add_slow_ranks(runs[i], "In " + runs[i].name + " ", sentences);
  return sentences;
}

std::vector<std::string> sentences_on(const ReportedStudy& study) {
  const Monitor* monitor = nullptr;
  const ReportedSeries* best = nullptr;
  const SeriesPoint* its = nullptr;
  int64_t compared = 0;
  for (const ReportedSeries& series : study.series) {
    if (series.monitor.column.empty()) continue;
    if (monitor != nullptr && monitor->column != series.monitor.column) return {};
    monitor = &series.monitor;
    bool has = false;
    for (const SeriesPoint& point : series.points) {
      const std::optional<double> mean = point.figures.metric.mean;
      if (!mean) continue;
      has = true;
      if (its != nullptr &&
          !(monitor->larger_is_better ? *mean > *its->figures.metric.mean : *mean < *its->figures.metric.mean))
        continue;
      best = &series;
      its = &point;
    }
    if (has) ++compared;
  }
  if (compared < 2) return {};
  return {"The best " + monitor->column + " has " + best->name + ", " + on_ranks(its->figures.ranks) + ": " +
          spread_text(its->figures.metric, 4) + "."};
}

}  // namespace dtrain
