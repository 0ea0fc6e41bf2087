#pragma once
#include <string>

#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// Throws DataError for samples whose class or group is 'nan' or '<NA>', which pandas writes for an empty field: as a
/// class it would be learnt, and as a patient it would join all who have no number. Names some of the samples.
void refuse_empty_values(const Dataset& dataset, const std::string& where);

}  // namespace dtrain
