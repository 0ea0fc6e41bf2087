#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// A sentence about `replaced` samples, and below it the reasons for those that the ranks have replaced since they
/// started, in the order of the data set, the first `most` of them, one per line, how many more there are, and how many
/// of `replaced` came before this start. All ranks call it together and get the same; `mine`: this rank's.
std::string tell_replaced(Communicator& comm, const std::string& sentence, int64_t replaced,
                          const std::vector<Replaced>& mine, size_t most = 3);

/// Throws DataError naming the first of them if the ranks have replaced more samples in an epoch than max_bad. All
/// ranks call it together, with the same `replaced`; nothing is sent unless it throws.
void require_few_replaced(Communicator& comm, int64_t replaced, int64_t max_bad, const std::vector<Replaced>& mine);

}  // namespace dtrain
