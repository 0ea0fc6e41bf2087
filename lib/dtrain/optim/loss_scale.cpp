#include "dtrain/optim/loss_scale.hpp"

#include <algorithm>

namespace dtrain {

void LossScale::good_step() {
  if (++good_steps < kGrowAfter) return;
  scale = std::min(2 * scale, kMost);
  good_steps = 0;
}

bool LossScale::overflow() {
  if (scale / 2 < kLeast) return false;
  scale /= 2;
  good_steps = 0;
  return true;
}

}  // namespace dtrain
