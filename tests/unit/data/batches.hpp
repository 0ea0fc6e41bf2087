#pragma once
// What the tests of loaders share.
#include <optional>
#include <utility>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/data/batches/batch_source.hpp"

namespace dtrain::test {

inline Trace no_trace(false);

/// All batches that are left.
inline std::vector<Batch> drain(BatchSource& source) {
  std::vector<Batch> batches;
  while (std::optional<Batch> batch = source.next()) batches.push_back(std::move(*batch));
  return batches;
}

}  // namespace dtrain::test
