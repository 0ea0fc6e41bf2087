#include "dtrain/metrics/figures.hpp"

#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/share.hpp"

namespace dtrain {
namespace {

using MaybeGroups = std::optional<Groups>;

// Scores and labels of output `k`, one for each sample.
struct Column {
  std::vector<double> scores;
  std::vector<float> labels;

  Column(const Predictions& p, int64_t k) {
    const auto score = p.scores.accessor<double, 2>();
    const auto label = p.labels.accessor<float, 2>();
    for (int64_t i = 0; i < score.size(0); ++i) {
      scores.push_back(score[i][k]);
      labels.push_back(label[i][k]);
    }
  }
};

// Its parts are added to `all_parts`.
void set_auroc(Figure& figure, const Predictions& p, int64_t k, const MaybeGroups& groups,
               std::vector<AurocParts>& all_parts) {
  const Column column(p, k);
  if (!groups) {
    figure.value = auroc(column.scores, column.labels);
    return;
  }
  const std::optional<AurocParts> parts = auroc_parts(column.scores, column.labels, *groups);
  if (!parts) return;
  figure.value = parts->value;
  figure.confidence = auroc_confidence({&*parts, 1}, groups->noun);
  all_parts.push_back(*parts);
}

// One AUROC for each output into `ones`, and into `mean` their mean over those that are defined.
void set_aurocs(Figure& mean, std::span<Figure> ones, const Predictions& p, const MaybeGroups& groups) {
  std::vector<AurocParts> parts;
  double sum = 0;
  int64_t defined = 0;
  for (size_t k = 0; k < ones.size(); ++k) {
    set_auroc(ones[k], p, static_cast<int64_t>(k), groups, parts);
    if (!ones[k].value) continue;
    sum += *ones[k].value;
    ++defined;
  }
  if (defined == 0) return;
  mean.value = sum / static_cast<double>(defined);
  if (groups) mean.confidence = auroc_confidence(parts, groups->noun);
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

// Pixels of class `k` in the whole set.
double pooled(const Predictions& p, int64_t k, Overlap overlap) {
  const auto pixels = p.pixels.accessor<int64_t, 3>();
  std::array<int64_t, 3> sums{};
  for (int64_t row = 0; row < pixels.size(0); ++row)
    for (int64_t i = 0; i < 3; ++i) sums[static_cast<size_t>(i)] += pixels[row][k][i];
  return overlap(sums[0], sums[1], sums[2]);
}

double pooled_mean(const Predictions& p, Overlap overlap) {
  double sum = 0;
  for (int64_t k = 0; k < p.pixels.size(1); ++k) sum += pooled(p, k, overlap);
  return sum / static_cast<double>(p.pixels.size(1));
}

double per_image(const Predictions& p) {
  const auto pixels = p.pixels.accessor<int64_t, 3>();
  double sum = 0;
  for (int64_t row = 0; row < pixels.size(0); ++row)
    for (int64_t k = 0; k < pixels.size(1); ++k) sum += iou_of(pixels[row][k][0], pixels[row][k][1], pixels[row][k][2]);
  return sum / static_cast<double>(pixels.size(0) * pixels.size(1));
}

using Shares = std::vector<GroupShare>;

// `share` of each sample, summed over its group.
Shares shares_of(const Groups& groups, const std::function<GroupShare(int64_t)>& share) {
  Shares sums(static_cast<size_t>(groups.count));
  for (size_t i = 0; i < groups.of.size(); ++i) {
    const GroupShare one = share(static_cast<int64_t>(i));
    GroupShare& sum = sums[static_cast<size_t>(groups.of[i])];
    sum = {sum.part + one.part, sum.whole + one.whole};
  }
  return sums;
}

// For each class, what each group adds to a figure; `share` of the pixels in both, predicted, and in the mask.
std::vector<Shares> pixel_shares(const Predictions& p, const Groups& groups,
                                 GroupShare (*share)(int64_t, int64_t, int64_t)) {
  const auto pixels = p.pixels.accessor<int64_t, 3>();
  std::vector<Shares> classes;
  for (int64_t k = 0; k < pixels.size(1); ++k)
    classes.push_back(
        shares_of(groups, [&](int64_t row) { return share(pixels[row][k][0], pixels[row][k][1], pixels[row][k][2]); }));
  return classes;
}

GroupShare iou_share(int64_t both, int64_t predicted, int64_t wanted) {
  return {static_cast<double>(both), static_cast<double>(predicted + wanted - both)};
}
GroupShare iou_image_share(int64_t both, int64_t predicted, int64_t wanted) {
  return {iou_of(both, predicted, wanted), 1};
}
GroupShare dice_share(int64_t both, int64_t predicted, int64_t wanted) {
  return {2.0 * static_cast<double>(both), static_cast<double>(predicted + wanted)};
}

void set_overlaps(std::vector<Figure>& figures, const Predictions& p, const MaybeGroups& groups) {
  figures[0].value = pooled_mean(p, iou_of);
  figures[1].value = per_image(p);
  figures[2].value = pooled_mean(p, dice_of);
  for (size_t k = 3; k < figures.size(); ++k) figures[k].value = pooled(p, static_cast<int64_t>(k - 3), iou_of);
  if (!groups) return;
  const std::vector<Shares> iou = pixel_shares(p, *groups, iou_share);
  const auto confidence = [&](const Figure& figure, std::span<const Shares> classes) {
    return share_confidence(*figure.value, classes, groups->noun);
  };
  figures[0].confidence = confidence(figures[0], iou);
  figures[1].confidence = confidence(figures[1], pixel_shares(p, *groups, iou_image_share));
  figures[2].confidence = confidence(figures[2], pixel_shares(p, *groups, dice_share));
  for (size_t k = 3; k < figures.size(); ++k) figures[k].confidence = confidence(figures[k], {&iou[k - 3], 1});
}

void set_accuracy(Figure& figure, const Predictions& p, const MaybeGroups& groups) {
  const at::Tensor right = p.scores.argmax(1).eq(p.labels.argmax(1)).to(at::kDouble);
  figure.value = right.sum().item<double>() / static_cast<double>(right.size(0));
  if (!groups) return;
  const auto hit = right.accessor<double, 1>();
  const Shares shares = shares_of(*groups, [&](int64_t row) { return GroupShare{hit[row], 1}; });
  figure.confidence = share_confidence(*figure.value, {&shares, 1}, groups->noun, true);
}

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
                               const std::optional<Groups>& groups) {
  std::vector<Figure> figures;
  for (const std::string& name : figure_names(task, classes)) figures.push_back({name, std::nullopt, {}});
  if (p.loss.size(0) == 0) return figures;
  std::vector<AurocParts> parts;
  switch (task) {
    case Task::multilabel:
      set_aurocs(figures[0], std::span(figures).subspan(1), p, groups);
      break;
    case Task::multiclass:
      set_accuracy(figures[0], p, groups);
      if (classes.size() == 2)
        set_auroc(figures[1], p, 1, groups, parts);
      else
        set_aurocs(figures[1], std::span(figures).subspan(2), p, groups);
      break;
    case Task::segmentation:
      set_overlaps(figures, p, groups);
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
