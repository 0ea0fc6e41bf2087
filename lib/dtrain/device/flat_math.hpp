#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/device/picture_rules.hpp"
#include "dtrain/device/update_rules.hpp"

namespace dtrain {

/// The loops over flat float32 memory and over pictures that training needs, on the CPU or on a GPU: pointers are to
/// memory of that device. On a GPU work goes to the calling thread's current stream and the call returns at once,
/// except for sums_of_squares(). add(), sum() and update() give an element the same bits however calls divide the
/// memory.
class FlatMath {
 public:
  virtual ~FlatMath() = default;

  /// into[i] += from[i]; the two do not overlap.
  virtual void add(float* into, const float* from, int64_t numel) const = 0;

  /// Step of a sum: the number of an input to put on the stack, or kAdd for the two on top of it to become their sum.
  static constexpr int kAdd = -1;
  /// Runs `program`, postfix, for each of `numel` elements; the result on the stack goes to every output. `depth`: of
  /// the stack. An output may be one of the inputs, but must not overlap any otherwise.
  virtual void sum(std::span<const int> program, int depth, const std::vector<const float*>& inputs,
                   const std::vector<float*>& outputs, int64_t numel) const = 0;

  /// Applies the rule to each element, reading and writing every float once. Sets *not_finite (memory of the device)
  /// to 1 when a gradient or an updated weight is not finite, and leaves it alone otherwise; all elements are updated
  /// in any case.
  virtual void update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
                      int32_t* not_finite) const = 0;
  /// The first of the two passes of a rule with kTrust, before update() for the same elements. Leaves Σw² and the sum
  /// of squares of what the rule measures in sums[0] and sums[1], in double, in an order of additions that depends only
  /// on the number of elements. `sums`: memory of the device with room for kMeasureRoom values.
  virtual void measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
                       double* sums) const = 0;
  static constexpr int64_t kMeasureRoom = 2 + 2 * 256;

  /// Σx² in double of each range, in an order of additions that depends only on the size of the range: what clipping by
  /// the global norm needs. Not finite exactly when an element is not. Waits for the device.
  virtual std::vector<double> sums_of_squares(const float* values, const std::vector<Range>& ranges) const = 0;

  /// Flips, turns and normalises `count` pictures into out[count, height, width, channels]. `pictures` lies in memory
  /// of the device, too.
  virtual void finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count,
                               float* out) const = 0;
  /// Flips and turns masks into planes of 0 and 1, out[count, classes, height, width]; plane k is class k + 1.
  virtual void finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes,
                            float* out) const = 0;
};

/// The CPU's.
const FlatMath& host_math();

}  // namespace dtrain
