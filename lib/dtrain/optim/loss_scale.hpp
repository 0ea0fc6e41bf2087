#pragma once
#include <cstdint>

namespace dtrain {

/// Dynamic loss scaling (Micikevicius et al. 2018) by the rule and with the constants of PyTorch's
/// torch.amp.GradScaler. float16 ends at 6e-8 below and 65504 above: the loss is multiplied by `scale` before backward,
/// so that small gradients are not lost, and the gradients are divided by it before the update. If one of them is not
/// finite the scale was too large: that update is skipped and the scale halved; after 2000 steps without overflow it
/// doubles.
/// Plain values, part of a checkpoint. Equal on all ranks, because its inputs are.
struct LossScale {
  static constexpr double kFirst = 65536;
  static constexpr int64_t kGrowAfter = 2000;  ///< steps
  static constexpr double kLeast = 1;          ///< scaling cannot help gradients that overflow even then
  static constexpr double kMost = 0x1p32;      ///< keeps gradients that are all zero from driving it out of float32

  double scale = kFirst;   ///< a power of two, kLeast … kMost
  int64_t good_steps = 0;  ///< since the scale last changed, below kGrowAfter

  /// After a step whose gradients were finite.
  void good_step();
  /// After one whose gradients were not. False: the scale is already the least, nothing changed.
  bool overflow();
};

}  // namespace dtrain
