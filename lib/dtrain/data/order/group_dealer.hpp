#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// What is never split: a patient's samples, or a single sample.
struct SampleGroup {
  std::string name;
  double place = 0;                                 ///< its position on the line, from the name's hash, [0, 1)
  std::vector<int64_t> samples;                     ///< indices into Dataset::samples
  std::vector<std::pair<int64_t, int64_t>> labels;  ///< (label, how many of its samples have it), counts >= 1
};

/// Bin of each group, for bins that divide the line [0, 1) in their order: `shares` >= 0 with sum 1. A group's bin
/// depends on its position alone, so adding or removing other groups does not move it; sizes are met on average.
/// Bins with a share get at least one group, if there are enough: the bin with the most gives its nearest; if there are
/// too few, earlier bins come first. `groups` must be in the order of their positions.
std::vector<size_t> deal_by_place(const std::vector<SampleGroup>& groups, const std::vector<double>& shares);

/// The same with sizes and labels met as exactly as groups allow, by iterative stratification (Sechidis, Tsoumakas and
/// Vlahavas, "On the Stratification of Multi-label Data", ECML PKDD 2011): label by label, the rarest first, each group
/// goes to the bin that lacks most of that label. Two things are added: a group stays in the bin of its position if
/// there is room, so that the result is close to deal_by_place(); and a bin's total shortfall is added to what it needs
/// of the next label, so that rounding errors do not accumulate over labels.
std::vector<size_t> deal_stratified(const std::vector<SampleGroup>& groups, const std::vector<double>& shares);

}  // namespace dtrain
