#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "dtrain/config/config.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// A contact sheet of the training part as the network will see it, normalisation undone, as a PNG file: a row for each
/// of up to six samples, of different classes if possible, first as evaluation sees it, then as five epochs would, with
/// labels and masks. mixup and cutmix mix these samples with each other. `bad`: samples that cannot be read. Throws
/// DataError if no sample can be shown, otherwise like the loader.
std::vector<std::byte> preview_sheet(const Config& config, const Plan& plan, const std::set<int64_t>& bad = {});

}  // namespace dtrain
