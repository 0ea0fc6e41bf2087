#include "unit/study/made_up_report.hpp"

#include <cmath>
#include <limits>

namespace dtrain::test {
namespace {

/// Between -1 and 1, always the same for the same numbers.
double noise(double a, double b) {
  const double x = std::sin(a * 12.9898 + b * 78.233) * 43758.5453;
  return 2 * (x - std::floor(x)) - 1;
}

double efficiency_of(int64_t ranks) { return 1 / (1 + 0.03 * static_cast<double>(ranks - 1)); }

void fill_times(ReportedRun& run, int64_t epochs, double epoch_s) {
  const double n = static_cast<double>(run.ranks);
  run.times = {{"compute", {}}, {"data wait", {}}, {"all-reduce", {}}, {"other", {}}, {"validation", {}}};
  for (int64_t e = 0; e < epochs; ++e) {
    const double start = e == 0 ? 1.7 : 1;
    const double all = epoch_s * (1 + 0.02 * noise(static_cast<double>(e), n));
    const double shared = 0.03 * (n - 1) * all / (1 + 0.03 * n);
    const std::vector<double> parts{all * 0.75 - shared * 0.7, all * 0.1 * start, shared, all * 0.02 * start,
                                    all * 0.13};
    for (size_t i = 0; i < parts.size(); ++i) run.times[i].seconds.push_back(parts[i]);
  }
  for (int64_t rank = 0; run.ranks > 1 && rank < run.ranks; ++rank) {
    const double factor = rank == 0 ? 1.19 : 1.02 - 0.01 * static_cast<double>(rank);
    run.rank_times.push_back({.rank = run.ranks - 1 - rank,
                              .host = "node0" + std::to_string(1 + rank / 4),
                              .compute_s = epoch_s * 0.6 * factor,
                              .data_wait_s = epoch_s * 0.1,
                              .allreduce_s = epoch_s * 0.1 / factor,
                              .step_ms_median = 80 * factor,
                              .step_ms_p95 = 95 * factor,
                              .to_median = factor,
                              .slow = rank == 0});
  }
}

void fill_evaluation(ReportedRun& run) {
  const std::vector<std::string> names{
      "Hernia",   "Emphysema",   "Cardiomegaly",       "Pneumothorax",  "Edema",  "Effusion",  "Mass",
      "Fibrosis", "Atelectasis", "Pleural_Thickening", "Consolidation", "Nodule", "Pneumonia", "Infiltration"};
  run.split = "valid";
  run.per_class_of = "auroc";
  run.values = {{.name = "auroc", .value = 0.8214, .low = 0.8112, .high = 0.8309},
                {.name = "accuracy", .value = 0.913}};
  for (size_t i = 0; i < names.size(); ++i) {
    const double value = 0.91 - 0.016 * static_cast<double>(i);
    const double half = i == 0 ? 0.09 : 0.01 + 0.002 * static_cast<double>(i);
    run.per_class.push_back(
        {.name = names[i], .value = value, .low = value - half, .high = std::min(1.0, value + half * 0.8)});
    run.counts.push_back({.name = names[i],
                          .positives = static_cast<int64_t>(20 * std::exp2(0.7 * static_cast<double>(i))),
                          .known = 11212});
  }
}

}  // namespace

ReportedRun made_up_run(int64_t epochs, int64_t ranks, int64_t seed) {
  const double n = static_cast<double>(ranks);
  const double epoch_s = 120 / (n * efficiency_of(ranks));
  ReportedRun run{.name = "chexnet",
                  .folder = "runs/chexnet",
                  .state = "finished",
                  .finished = true,
                  .series = "chexnet",
                  .ranks = ranks,
                  .logical_ranks = ranks,
                  .processes = ranks,
                  .nodes = (ranks + 3) / 4,
                  .device = "NVIDIA H100",
                  .seed = seed};
  run.metrics = {{"train_accuracy", {}}, {"valid_accuracy", {}}, {"valid_auroc", {}}};
  double elapsed = 0;
  const double s = static_cast<double>(seed);
  for (int64_t e = 1; e <= epochs; ++e) {
    const double x = static_cast<double>(e);
    elapsed += epoch_s * (e == 1 ? 1.4 : 1);
    const double fall = std::exp(-x / (6 + 0.4 * n));
    run.epoch.push_back(x);
    run.elapsed_s.push_back(elapsed);
    run.train_loss.push_back(0.12 + 0.5 * fall + 0.008 * noise(x, s + n));
    run.valid_loss.push_back(0.16 + 0.004 * n + 0.45 * fall + 0.0005 * x + 0.015 * noise(x + 0.5, s + n));
    run.learning_rate.push_back(0.001 * (x < 6 ? x / 6 : std::pow(0.1, std::floor(x / 15))));
    run.images_per_s.push_back(11000 / epoch_s * (e == 1 ? 0.7 : 1 + 0.01 * noise(x, n)));
    run.metrics[0].values.push_back(0.95 - 0.5 * fall);
    run.metrics[1].values.push_back(0.91 - 0.45 * fall + 0.01 * noise(x, 3 + s));
    run.metrics[2].values.push_back(0.82 - 0.3 * fall - 0.003 * n + 0.01 * noise(x, 7 + s));
  }
  run.monitor = {.column = "valid_auroc", .larger_is_better = true};
  run.result = {.done = true,
                .epochs = epochs,
                .best = 0.82 - 0.003 * n + 0.005 * noise(s, n),
                .best_epoch = epochs - epochs / 4,
                .elapsed_s = elapsed,
                .images_per_s = 11000 / epoch_s,
                .epochs_per_hour = 3600 / epoch_s,
                .device = "NVIDIA H100",
                .nodes = run.nodes,
                .ranks = ranks,
                .logical_ranks = ranks};
  fill_times(run, epochs, epoch_s);
  fill_evaluation(run);
  run.manifest = {
      {"command", "dtrain --config chexnet.yaml"}, {"dtrain", "0.1.0"}, {"result_sha256", std::string(64, 'a')}};
  run.sentences = {
      "Validation loss has not fallen since epoch 17, while training loss still does: it begins to overfit."};
  return run;
}

namespace {

BandPoint curve_point(const std::vector<const ReportedRun*>& runs, const std::vector<double> ReportedRun::*column,
                      size_t epoch) {
  BandPoint point{.epoch = runs[0]->epoch[epoch], .least = std::numeric_limits<double>::infinity(), .most = -1e300};
  for (const ReportedRun* run : runs) {
    const double value = (run->*column)[epoch];
    point.elapsed_s += run->elapsed_s[epoch] / static_cast<double>(runs.size());
    point.mean += value / static_cast<double>(runs.size());
    point.least = std::min(point.least, value);
    point.most = std::max(point.most, value);
    ++point.runs;
  }
  return point;
}

SeriesPoint point_of(const Report& report, const std::vector<size_t>& at, const std::string& series) {
  std::vector<const ReportedRun*> runs;
  std::vector<double> best;
  for (const size_t i : at) {
    runs.push_back(&report.runs[i]);
    best.push_back(*report.runs[i].result.best);
  }
  const ReportedRun& first = *runs[0];
  const double n = static_cast<double>(first.ranks);
  const double efficiency = efficiency_of(first.ranks);
  SeriesPoint point{.runs = at, .logical_ranks = first.ranks};
  point.figures = {.series = series,
                   .device = first.device,
                   .nodes = first.nodes,
                   .ranks = first.ranks,
                   .runs = static_cast<int64_t>(runs.size()),
                   .epochs_per_hour = first.result.epochs_per_hour,
                   .images_per_s = first.result.images_per_s,
                   .time_to_train_s = first.result.elapsed_s,
                   .speedup = n * efficiency,
                   .efficiency = efficiency,
                   .metric = spread_of(best)};
  point.images_per_s = spread_of({*first.result.images_per_s * 0.98, *first.result.images_per_s * 1.02});
  point.time_to_train_s = spread_of({*first.result.elapsed_s * 0.98, *first.result.elapsed_s * 1.02});
  if (first.ranks > 1) point.serial_fraction = (1 / (n * efficiency) - 1 / n) / (1 - 1 / n);
  for (const TimePart& part : first.times) point.times.push_back({part.name, part.seconds.back()});
  for (size_t e = 0; e < first.epoch.size(); ++e) {
    point.train_loss.push_back(curve_point(runs, &ReportedRun::train_loss, e));
    point.valid_loss.push_back(curve_point(runs, &ReportedRun::valid_loss, e));
    point.metric.push_back(curve_point(runs, &ReportedRun::images_per_s, e));
  }
  return point;
}

}  // namespace

Report made_up_study(const std::vector<std::string>& series, const std::vector<int64_t>& ranks, int64_t seeds,
                     int64_t epochs) {
  Report report{.title = "unet_scaling", .study = ReportedStudy{.name = "unet_scaling"}};
  for (const std::string& name : series) {
    ReportedSeries its{.name = name, .monitor = {"valid_auroc", true}, .has_one_rank = true};
    for (size_t i = 0; i < ranks.size(); ++i) {
      std::vector<size_t> at;
      for (int64_t seed = 1; seed <= seeds; ++seed) {
        at.push_back(report.runs.size());
        ReportedRun run = made_up_run(epochs, ranks[i], seed);
        run.series = name;
        run.name = name + "_ranks-" + std::to_string(ranks[i]) + "_seed-" + std::to_string(seed);
        report.runs.push_back(run);
      }
      its.points.push_back(point_of(report, at, name));
      if (i > 0 && its.points[i].figures.nodes > its.points[i - 1].figures.nodes) its.node_borders.push_back(ranks[i]);
    }
    its.sentences = {
        "More than 8 ranks do not pay: from 8 to 16 the rate grows by 12 %, while all-reduce grows from 9 to 31 % of "
        "an epoch."};
    report.study->series.push_back(its);
  }
  report.study->notes = {"2 points failed: ranks-8_seed-3, ranks-14_seed-1."};
  return report;
}

}  // namespace dtrain::test
