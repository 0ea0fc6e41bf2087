#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// What is never parted: a patient's samples, or one sample.
struct SampleGroup {
  std::string name;
  double place = 0;                                 ///< of the name's hash, [0, 1): where it stands on the line
  std::vector<int64_t> samples;                     ///< indices into Dataset::samples
  std::vector<std::pair<int64_t, int64_t>> labels;  ///< (label, how many of its samples have it), counts >= 1
};

/// Bin of each group, for bins that share the line [0, 1) in their order: `shares` >= 0 with sum 1. A group's bin
/// follows from its place alone, so that others may come and go; sizes are met on average.
///
/// Bins with a share get one group at least, as far as there are enough: the bin with the most gives its nearest, and
/// where there are too few earlier bins come first. `groups` must be in the order of their places.
std::vector<size_t> deal_by_place(const std::vector<SampleGroup>& groups, const std::vector<double>& shares);

/// The same with sizes and labels met as exactly as groups allow, by iterative stratification (Sechidis, Tsoumakas and
/// Vlahavas, "On the Stratification of Multi-label Data", ECML PKDD 2011): label by label, the rarest first, each group
/// goes where most of that label is wanting. Two things are added to it: a group stays in the bin of its place where
/// there is room, so that the result is near deal_by_place(); and what a bin was short of in total joins what it wants
/// of the next label, so that rounding does not add up over labels.
std::vector<size_t> deal_stratified(const std::vector<SampleGroup>& groups, const std::vector<double>& shares);

}  // namespace dtrain
