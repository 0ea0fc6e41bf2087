#include "dtrain/metrics/overlap.hpp"

namespace dtrain {

static GroupShare dice_share(const PixelCounts& counts) {
  return {2.0 * static_cast<double>(counts.both), static_cast<double>(counts.predicted + counts.wanted)};
}

extern const Metric kDice = {
    .name = "dice",
    .uses = {{Task::segmentation, 2}},
    .of_part = [](const Predictions& p, bool each_class,
                  const Groups* groups) { return overlaps_of(p, each_class, groups, dice_share); },
    .of_sample = [](const PixelCounts& counts) { return overlap(dice_share, counts); },
};

}  // namespace dtrain
