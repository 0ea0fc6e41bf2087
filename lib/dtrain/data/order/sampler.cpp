#include "dtrain/data/order/sampler.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/base/shards.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

int64_t largest_batch(const BatchOptions& batch, int64_t logical_ranks) {
  if (batch.global == 0) return batch.per_rank;
  const int64_t passes = logical_ranks * batch.accumulate;
  return std::max<int64_t>(1, (batch.global + passes - 1) / passes);
}

void require_enough_samples(int64_t samples, const BatchOptions& batch, int64_t logical_ranks) {
  const std::string each = " for " + count_of(logical_ranks, "logical rank") + ", and each needs at least one; ";
  if (samples < logical_ranks)
    throw ConfigError("the training part has " + count_of(samples, "sample") + each +
                      "use fewer processes or set distributed.logical_ranks");
  if (batch.global > 0 && batch.global < logical_ranks)
    throw ConfigError("batch.global has " + count_of(batch.global, "sample") + each +
                      "raise it, use fewer processes or set distributed.logical_ranks");
}

int64_t full_global_batch(const BatchOptions& batch, int64_t logical_ranks) {
  return batch.global > 0 ? batch.global : batch.per_rank * logical_ranks * batch.accumulate;
}

EpochPlan::EpochPlan(int64_t samples, int64_t logical_ranks, const BatchOptions& batch, Distribute distribute,
                     uint64_t seed, int64_t epoch, const std::vector<LabelGroup>& groups)
    : logical_ranks_(logical_ranks),
      global_batch_(full_global_batch(batch, logical_ranks)),
      micro_batch_(largest_batch(batch, logical_ranks)),
      accumulate_(batch.accumulate),
      distribute_(distribute) {
  require_enough_samples(samples, batch, logical_ranks);
  check(global_batch_ > 0, "batch.per_rank is settled before an epoch is planned");
  const int64_t rest = samples % global_batch_;
  for (int64_t at = 0; at + global_batch_ <= samples; at += global_batch_) begins_.push_back(at);
  const bool full = !begins_.empty();
  if (!batch.drop_last) {
    if (rest > 1 || !full) begins_.push_back(samples - rest);  // a single left-over sample joins the batch before
    begins_.push_back(samples);
  } else {
    if (!full)
      throw ConfigError("batch.last drop leaves nothing: " + count_of(samples, "training sample") +
                        " are fewer than one global batch of " + std::to_string(global_batch_) +
                        "; lower the batch, or set batch.last=short");
    begins_.push_back(samples - rest);
  }
  order_ = keyed_permutation(samples, seed, Purpose::epoch_order, static_cast<uint64_t>(epoch));
  if (!groups.empty()) draw(groups, seed, epoch);
}

// From a permutation of the epoch's draws to what they take.
void EpochPlan::draw(const std::vector<LabelGroup>& groups, uint64_t seed, int64_t epoch) {
  const std::vector<int64_t> draws = balanced_draws(groups, static_cast<int64_t>(order_.size()), seed, epoch);
  std::vector<int64_t> taken(draws.size(), 0);
  for (int64_t& place : order_) {
    place = draws[static_cast<size_t>(place)];
    repeats_.push_back(taken[static_cast<size_t>(place)]++);
  }
}

int64_t EpochPlan::count(int64_t step) const { return cursor(step + 1) - cursor(step); }

int64_t EpochPlan::sharers(int64_t step) const {
  const int64_t samples = count(step);
  return samples >= global_batch_ ? logical_ranks_ : std::min(logical_ranks_, std::max<int64_t>(1, samples / 2));
}

int64_t EpochPlan::count(int64_t step, int64_t logical_rank) const {
  const int64_t ranks = sharers(step);
  if (logical_rank >= ranks) return 0;
  if (distribute_ == Distribute::batches) return part_of(count(step), ranks, logical_rank).size();
  return (count(step) - logical_rank + ranks - 1) / ranks;
}

std::vector<int64_t> EpochPlan::micro_batches(int64_t step, int64_t logical_rank) const {
  const int64_t samples = count(step, logical_rank);
  if (samples == 0) return {};
  const int64_t wanted = std::min(accumulate_, (samples + micro_batch_ - 1) / micro_batch_);
  const int64_t most = micro_batch_ > 1 ? std::max<int64_t>(1, samples / 2) : samples;
  const int64_t parts = std::min(wanted, most);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(part_of(samples, parts, i).size());
  return sizes;
}

std::vector<int64_t> EpochPlan::taken(const std::vector<int64_t>& all, int64_t step, int64_t logical_rank) const {
  const int64_t ranks = sharers(step);
  const int64_t own = count(step, logical_rank);
  const bool pieces = distribute_ == Distribute::batches;
  const int64_t first = pieces && own > 0 ? part_of(count(step), ranks, logical_rank).begin : logical_rank;
  const int64_t stride = pieces ? 1 : ranks;
  std::vector<int64_t> some;
  some.reserve(static_cast<size_t>(own));
  for (int64_t i = 0; i < own; ++i) some.push_back(all[static_cast<size_t>(cursor(step) + first + i * stride)]);
  return some;
}

int64_t EpochPlan::step_at(int64_t cursor) const {
  const auto found = std::lower_bound(begins_.begin(), begins_.end(), cursor);
  check(found != begins_.end() && *found == cursor, "a step begins at the cursor " + std::to_string(cursor));
  return found - begins_.begin();
}

}  // namespace dtrain
