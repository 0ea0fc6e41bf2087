#include "dtrain/train/replica_check.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

namespace {

constexpr double kShare = 0.003;        // of the time, with the buffers; below the promised half per cent
constexpr int64_t kStepsToMeasure = 3;  // the first one is not typical

uint64_t one_number(const std::vector<uint32_t>& hashes) {
  return hash64({reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(uint32_t)}) | 1;  // never 0
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

ReplicaCheck::ReplicaCheck(const Replica& replica, Communicator& comm, int64_t every)
    : replica_(replica), comm_(comm), every_(every), automatic_(every == 0) {}

void ReplicaCheck::look() {
  const Stopwatch watch;
  seen_ = replica_.see_buffers();
  spent_.buffers_s += watch.seconds();
  weight_hashes_.clear();
  if (every_ == 0 ? taken_ <= 1 : taken_ >= next_) {
    seen_->statistics.wait();  // else what a GPU has left to do would count as hashing
    const Stopwatch weights;
    weight_hashes_ = replica_.hash_weights();
    spent_.weights_s += weights.seconds();
    ++weights_taken_;
    next_ = taken_ + every_;
  }
  ++taken_;
  spent_.checks_s += watch.seconds();
}

ReplicaCheck::Hashes ReplicaCheck::take() {
  check(seen_.has_value(), "a step's replicas are looked at before they are hashed");
  const Stopwatch watch;
  buffer_hashes_ = replica_.hash_buffers(*seen_);
  seen_.reset();
  const Hashes hashes{one_number(buffer_hashes_), weight_hashes_.empty() ? 0 : one_number(weight_hashes_)};
  spent_.buffers_s += watch.seconds();
  spent_.checks_s += watch.seconds();
  return hashes;
}

void ReplicaCheck::compare(const std::vector<Hashes>& of_ranks, int64_t step) {
  const Stopwatch watch;
  for (const Hashes& hashes : of_ranks)
    if (hashes.buffers != of_ranks[0].buffers || hashes.weights != of_ranks[0].weights) name_difference(step);
  spent_.checks_s += watch.seconds();
}

void ReplicaCheck::compare_now(int64_t step) {
  buffer_hashes_ = replica_.hash_buffers();
  weight_hashes_ = replica_.hash_weights();
  const at::Tensor mine = at::tensor(
      {static_cast<int64_t>(one_number(buffer_hashes_)), static_cast<int64_t>(one_number(weight_hashes_))}, at::kLong);
  for (const at::Tensor& theirs : all_gather(comm_, mine))
    if (!at::equal(theirs, mine)) return name_difference(step);
}

void ReplicaCheck::step_took(double seconds) {
  if (!automatic_) return;
  if (taken_ > 1) spent_.steps_s += seconds;
  if (every_ == 0 ? taken_ < kStepsToMeasure : weight_hashes_.empty()) return;
  const double step_s = spent_.steps_s / static_cast<double>(taken_ - 1);
  // If the buffers alone use up the share, the weights still get a tenth of it, so that they are always checked.
  const double allowed_s =
      std::max(kShare * step_s - spent_.buffers_s / static_cast<double>(taken_), std::max(kShare * step_s / 10, 1e-9));
  const double wanted = std::ceil(spent_.weights_s / static_cast<double>(weights_taken_) / allowed_s);
  at::Tensor agreed = at::full({1}, static_cast<int64_t>(std::clamp(wanted, 1.0, 10'000.0)), at::kLong);
  broadcast(comm_, agreed);
  every_ = agreed.item<int64_t>();
  next_ = taken_ - 1 + every_;
}

void ReplicaCheck::name_difference(int64_t step) {
  std::vector<std::string> names = replica_.buffer_names();
  std::vector<uint32_t> mine = buffer_hashes_;
  if (!weight_hashes_.empty()) {
    for (const std::string& name : replica_.weight_names()) names.push_back(name);
    mine.insert(mine.end(), weight_hashes_.begin(), weight_hashes_.end());
  }
  const at::Tensor row = at::empty({static_cast<int64_t>(mine.size())}, at::kInt);
  std::memcpy(row.mutable_data_ptr(), mine.data(), mine.size() * sizeof(uint32_t));
  const std::vector<at::Tensor> rows = all_gather(comm_, row);
  for (const at::Tensor& theirs : rows)
    check(theirs.numel() == row.numel(), "all ranks hash the same tensors in the same steps");
  for (size_t i = 0; i < mine.size(); ++i) {
    std::map<int32_t, std::vector<int>> holders;
    for (size_t rank = 0; rank < rows.size(); ++rank)
      holders[rows[rank].const_data_ptr<int32_t>()[i]].push_back(static_cast<int>(rank));
    if (holders.size() == 1) continue;
    const auto most = std::max_element(holders.begin(), holders.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size() || (a.second.size() == b.second.size() && a.second[0] > b.second[0]);
    });
    std::vector<int> others;
    for (const auto& [hash, ranks] : holders)
      if (hash != most->first) others.insert(others.end(), ranks.begin(), ranks.end());
    std::sort(others.begin(), others.end());
    throw Error(exit_code::kReplicasDiffer,
                rank_list(others) + " and " + rank_list(most->second) + " hold different bits of " + names[i] +
                    " before step " + std::to_string(step) +
                    (others.size() < most->second.size() ? "; the fault lies with " + rank_list(others) : "") +
                    ": memory or a processor has failed; start again on other hosts from the newest checkpoint");
  }
  throw Error(exit_code::kReplicasDiffer, "the replicas' hashes differ before step " + std::to_string(step) +
                                              " although every tensor's agree: a message was damaged on its way");
}

}  // namespace dtrain
