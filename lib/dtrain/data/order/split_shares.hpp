#pragma once
#include <array>
#include <string>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// The part of each sample of a data set, by its place in kParts.
using Parts = std::vector<int>;
constexpr int kLeftOut = 3;
constexpr std::array<const char*, 4> kParts = {"train", "valid", "test", "left out"};

bool holds(const Parts& parts, int part);

/// Every sample by its share or fold; split_dataset() says how. Throws ConfigError as described there.
Parts all_by_share(const Dataset& dataset, const SplitOptions& options);

/// The same for those of `parts` that train, or where none does, for those left out; all others stay where they are.
/// Patients stay whole where samples tell them (tells_patient()) and there are enough for all parts, whatever `by`
/// says but order: who names parts means that.
Parts deal_rest(const Dataset& dataset, const SplitOptions& options, Parts parts);

}  // namespace dtrain
