#include "dtrain/metrics/overlap.hpp"

namespace dtrain {
namespace {

GroupShare iou_share(const PixelCounts& counts) {
  return {static_cast<double>(counts.both), static_cast<double>(counts.predicted + counts.wanted - counts.both)};
}

double iou_of(const PixelCounts& counts) { return overlap(iou_share, counts); }

// One trial for each picture and class, of which its IoU was won.
GroupShare iou_image_share(const PixelCounts& counts) { return {iou_of(counts), 1}; }

MetricValues iou_image_of(const Predictions& p, bool, const Groups* groups) {
  double sum = 0;
  for (const PixelCounts& counts : p.pixels) sum += iou_of(counts);
  MetricValues values;
  values.all.value = sum / static_cast<double>(p.pixels.size());
  if (groups != nullptr)
    values.all.confidence =
        share_confidence(*values.all.value, pixel_shares(p, *groups, iou_image_share), groups->noun);
  return values;
}

}  // namespace

extern const Metric kIou = {
    .name = "iou",
    .uses = {{Task::segmentation, 2}},
    .of_part = [](const Predictions& p, bool each_class,
                  const Groups* groups) { return overlaps_of(p, each_class, groups, iou_share); },
    .of_sample = iou_of,
};

extern const Metric kIouImage = {
    .name = "iou_image",
    .uses = {{Task::segmentation}},
    .of_part = iou_image_of,
};

}  // namespace dtrain
