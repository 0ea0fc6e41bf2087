#include "dtrain/data/batches/epoch_requests.hpp"

#include <algorithm>

namespace dtrain {

// Adds the samples that the other logical ranks take in a step to this process's last batch so far: of this step, or of
// an earlier one if it has none in this step.
static void add_foreign(const EpochPlan& plan, const std::vector<int64_t>& part, const EpochShare& share, int64_t step,
                        std::vector<BatchRequest>& requests) {
  if (requests.empty()) return;
  for (int64_t v = 0; v < plan.logical_ranks(); ++v)
    if (v < share.logical_ranks.begin || v >= share.logical_ranks.end)
      for (const int64_t place : plan.places(step, v))
        requests.back().foreign.push_back(part[static_cast<size_t>(place)]);
}

std::vector<BatchRequest> epoch_requests(const EpochPlan& plan, const std::vector<int64_t>& part,
                                         const EpochShare& share) {
  std::vector<BatchRequest> requests;
  for (int64_t step = share.first_step; step < plan.steps(); ++step) {
    for (int64_t v = share.logical_ranks.begin; v < share.logical_ranks.end; ++v) {
      const std::vector<int64_t> places = plan.places(step, v);
      const std::vector<int64_t> repeats = plan.repeats(step, v);
      auto place = places.begin();
      auto repeat = repeats.begin();
      for (const int64_t size : plan.micro_batches(step, v)) {
        requests.push_back({{}, share.epoch, share.may_replace});
        for (int64_t i = 0; i < size; ++i) requests.back().samples.push_back(part[static_cast<size_t>(*place++)]);
        for (int64_t i = 0; i < size && !repeats.empty(); ++i) requests.back().repeats.push_back(*repeat++);
      }
    }
    if (share.reads_everything) add_foreign(plan, part, share, step, requests);
  }
  return requests;
}

std::vector<BatchRequest> dealt_requests(std::span<const int64_t> samples, int64_t batch, int process, int processes) {
  std::vector<BatchRequest> requests;
  const auto whole = static_cast<size_t>(batch);
  for (size_t begin = static_cast<size_t>(process) * whole; begin < samples.size();
       begin += static_cast<size_t>(processes) * whole) {
    const auto cut = samples.subspan(begin, std::min(whole, samples.size() - begin));
    requests.push_back({{cut.begin(), cut.end()}, std::nullopt});
  }
  return requests;
}

}  // namespace dtrain
