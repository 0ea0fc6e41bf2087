#include "dtrain/metrics/figures.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"

namespace dtrain {
namespace {

using Rows = std::vector<int64_t>;  // which samples, with repetitions in a bootstrap
using Statistic = std::function<std::optional<double>(const Rows&)>;

Rows all_rows(int64_t n) {
  Rows rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::optional<Interval> with_bootstrap(const Statistic& statistic, int64_t n, int draws) {
  const std::optional<double> value = statistic(all_rows(n));
  if (!value) return std::nullopt;
  std::vector<double> seen;
  for (int draw = 0; draw < draws; ++draw) {
    KeyedRandom random(0, Purpose::bootstrap, static_cast<uint64_t>(draw));
    Rows rows(static_cast<size_t>(n));
    for (int64_t& row : rows) row = static_cast<int64_t>(random.below(static_cast<uint64_t>(n)));
    if (const auto drawn = statistic(rows)) seen.push_back(*drawn);
  }
  if (seen.empty()) return Interval{*value, *value, *value};
  std::sort(seen.begin(), seen.end());
  const auto quantile = [&](double q) {
    return seen[static_cast<size_t>(q * static_cast<double>(seen.size() - 1) + 0.5)];
  };
  return Interval{*value, quantile(0.025), quantile(0.975)};
}

Interval wilson(double hits, double n) {
  constexpr double z = 1.959963984540054;
  const double p = hits / n;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {p, std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

std::optional<Interval> class_auroc(const Predictions& p, int64_t k, const Rows& rows) {
  std::vector<double> scores;
  std::vector<float> labels;
  const auto score = p.scores.accessor<double, 2>();
  const auto label = p.labels.accessor<float, 2>();
  for (int64_t row : rows) {
    scores.push_back(score[row][k]);
    labels.push_back(label[row][k]);
  }
  return auroc(scores, labels);
}

std::optional<double> mean_auroc(const Predictions& p, const Rows& rows) {
  double sum = 0;
  int64_t defined = 0;
  for (int64_t k = 0; k < p.scores.size(1); ++k)
    if (const auto one = class_auroc(p, k, rows)) {
      sum += one->value;
      ++defined;
    }
  return defined == 0 ? std::nullopt : std::optional(sum / static_cast<double>(defined));
}

// Intersection, prediction and mask in pixels; an empty union is a perfect answer.
double iou_of(int64_t both, int64_t predicted, int64_t wanted) {
  const int64_t united = predicted + wanted - both;
  return united == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(united);
}
double dice_of(int64_t both, int64_t predicted, int64_t wanted) {
  return predicted + wanted == 0 ? 1.0 : 2.0 * static_cast<double>(both) / static_cast<double>(predicted + wanted);
}
using Overlap = double (*)(int64_t, int64_t, int64_t);

double pooled(const Predictions& p, int64_t k, const Rows& rows, Overlap overlap) {
  const auto pixels = p.pixels.accessor<int64_t, 3>();
  std::array<int64_t, 3> sums{};
  for (int64_t row : rows)
    for (int64_t i = 0; i < 3; ++i) sums[static_cast<size_t>(i)] += pixels[row][k][i];
  return overlap(sums[0], sums[1], sums[2]);
}

double pooled_mean(const Predictions& p, const Rows& rows, Overlap overlap) {
  double sum = 0;
  for (int64_t k = 0; k < p.pixels.size(1); ++k) sum += pooled(p, k, rows, overlap);
  return sum / static_cast<double>(p.pixels.size(1));
}

double per_image(const Predictions& p, const Rows& rows) {
  const auto pixels = p.pixels.accessor<int64_t, 3>();
  double sum = 0;
  for (int64_t row : rows)
    for (int64_t k = 0; k < p.pixels.size(1); ++k)
      sum += iou_of(pixels[row][k][0], pixels[row][k][1], pixels[row][k][2]);
  return sum / static_cast<double>(static_cast<int64_t>(rows.size()) * p.pixels.size(1));
}

double accuracy_hits(const Predictions& p) { return p.scores.argmax(1).eq(p.labels.argmax(1)).sum().item<double>(); }

}  // namespace

std::vector<std::string> figure_names(Task task, const std::vector<std::string>& classes) {
  std::vector<std::string> names;
  const auto per_class = [&](const std::string& stem) {
    for (const std::string& name : classes) names.push_back(stem + "_" + name);
  };
  switch (task) {
    case Task::multilabel:
      names = {"auroc"};
      per_class("auroc");
      break;
    case Task::multiclass:
      names = {"accuracy", "auroc"};
      if (classes.size() > 2) per_class("auroc");
      break;
    case Task::segmentation:
      names = {"iou", "iou_image", "dice"};
      if (classes.size() > 1) per_class("iou");
      break;
    case Task::from_format:
      break;
  }
  return names;
}

std::vector<Figure> figures_of(Task task, const std::vector<std::string>& classes, const Predictions& p,
                               bool intervals) {
  const int64_t n = p.loss.size(0);
  std::vector<Figure> figures;
  for (const std::string& name : figure_names(task, classes)) figures.push_back({name, std::nullopt});
  if (n == 0) return figures;
  const Rows rows = all_rows(n);
  const auto bootstrapped = [&](const Statistic& statistic, int draws) {
    return with_bootstrap(statistic, n, intervals ? draws : 0);
  };
  const auto classes_from = [&](size_t first, const auto& figure_of_class) {
    for (size_t k = 0; first + k < figures.size(); ++k)
      figures[first + k].value = figure_of_class(static_cast<int64_t>(k));
  };
  const auto one_auroc = [&](int64_t k) { return class_auroc(p, k, rows); };
  switch (task) {
    case Task::multilabel:
      figures[0].value = bootstrapped([&](const Rows& r) { return mean_auroc(p, r); }, 200);
      classes_from(1, one_auroc);
      break;
    case Task::multiclass:
      figures[0].value = wilson(accuracy_hits(p), static_cast<double>(n));
      figures[1].value =
          classes.size() == 2 ? one_auroc(1) : bootstrapped([&](const Rows& r) { return mean_auroc(p, r); }, 200);
      classes_from(2, one_auroc);
      break;
    case Task::segmentation:
      figures[0].value = bootstrapped([&](const Rows& r) { return pooled_mean(p, r, iou_of); }, 2000);
      figures[1].value = bootstrapped([&](const Rows& r) { return per_image(p, r); }, 2000);
      figures[2].value = bootstrapped([&](const Rows& r) { return pooled_mean(p, r, dice_of); }, 2000);
      classes_from(
          3, [&](int64_t k) { return bootstrapped([&, k](const Rows& r) { return pooled(p, k, r, iou_of); }, 2000); });
      break;
    case Task::from_format:
      check(false, "the task is known before anything is measured");
  }
  return figures;
}

double mean_loss(const Predictions& predictions) {
  const auto loss = predictions.loss.accessor<double, 1>();
  double sum = 0;
  for (int64_t i = 0; i < loss.size(0); ++i) sum += loss[i];
  return sum / static_cast<double>(loss.size(0));
}

std::vector<SampleOverlap> sample_overlaps(const Predictions& predictions) {
  std::vector<SampleOverlap> overlaps;
  const auto pixels = predictions.pixels.accessor<int64_t, 3>();
  for (int64_t i = 0; i < pixels.size(0); ++i) {
    std::array<int64_t, 3> sums{};
    for (int64_t k = 0; k < pixels.size(1); ++k)
      for (int64_t j = 0; j < 3; ++j) sums[static_cast<size_t>(j)] += pixels[i][k][j];
    overlaps.push_back({iou_of(sums[0], sums[1], sums[2]), dice_of(sums[0], sums[1], sums[2])});
  }
  return overlaps;
}

}  // namespace dtrain
