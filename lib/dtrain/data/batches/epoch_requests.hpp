#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/data/order/sampler.hpp"

namespace dtrain {

/// Which part of an epoch a process asks its loader for.
struct EpochShare {
  Range logical_ranks;       ///< of the process
  int64_t first_step = 0;    ///< of the plan
  int64_t epoch = 0;         ///< keys the augmentation
  bool may_replace = false;  ///< BatchRequest::may_replace
  bool reads_everything =
      false;  ///< pipeline sequential: the other logical ranks' samples come as BatchRequest::foreign
};

/// The batches of that share in the order in which training takes them: by step, logical rank and backward pass.
/// `part`: the training part, whose places the plan permutes.
std::vector<BatchRequest> epoch_requests(const EpochPlan& plan, const std::vector<int64_t>& part,
                                         const EpochShare& share);

/// Samples that are judged, not learnt from: cut into batches of `batch` whatever the number of processes, because a
/// convolution's bits may depend on the batch; batch j is for process j mod `processes`. Those of `process`, in order.
std::vector<BatchRequest> dealt_requests(std::span<const int64_t> samples, int64_t batch, int process, int processes);

}  // namespace dtrain
