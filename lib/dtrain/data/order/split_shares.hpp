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

/// The same for the training samples of `parts`, or if there are none, for those left out; all others stay where they
/// are. Each patient stays in one part if samples identify patients (tells_patient()) and there are enough for all
/// parts, whatever `by` says except order: naming parts implies it.
Parts deal_rest(const Dataset& dataset, const SplitOptions& options, Parts parts);

}  // namespace dtrain
