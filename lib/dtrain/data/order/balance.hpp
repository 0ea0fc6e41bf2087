#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// Samples of a part that have the same labels: of one class, or of one pattern of several labels, in which unknown is
/// a value of its own.
struct LabelGroup {
  std::string name;             ///< the class, or the labels that are 1, joined by " + "; unknown ones as "name?"
  std::vector<int64_t> places;  ///< of its samples in the part, ascending, at least one
};

/// The groups among which `data.sampling: balanced` draws from `part`, indices into Dataset::samples: those that occur,
/// classes in their order, patterns in the order of their labels. Nothing where `sampling` is uniform. Throws
/// ConfigError for a data set of masks.
std::vector<LabelGroup> sampled_groups(Sampling sampling, const Dataset& dataset, const std::vector<int64_t>& part);

/// The places that an epoch of `samples` draws takes, not yet shuffled: a window of one endless sequence, epoch after
/// epoch. Its draws go round the groups, so that an epoch's numbers of draws from any two groups differ by one at most;
/// each group's draws go through its samples in an order keyed by (seed, group, how often it has been gone through), so
/// that every sample of a group is drawn before one is drawn again. A pure function of its arguments.
std::vector<int64_t> balanced_draws(const std::vector<LabelGroup>& groups, int64_t samples, uint64_t seed,
                                    int64_t epoch);

/// One line for the banner and `check`: how many draws an epoch takes from each group, and of how many samples.
std::string balance_text(const std::vector<LabelGroup>& groups, int64_t samples);

}  // namespace dtrain
