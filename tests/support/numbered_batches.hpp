#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/loader.hpp"

namespace dtrain::test {

/// Batches of pinned memory for a GPU to fetch: batch k, from 1 on, has pictures of `images` full of k and targets
/// [8, 5] full of -k. The last one that is asked for cannot be made: DataError.
class NumberedBatches final : public BatchSource {
 public:
  explicit NumberedBatches(std::vector<int64_t> images) : images_(std::move(images)) {}

  void start(std::vector<BatchRequest> requests) override {
    count_ = static_cast<int64_t>(requests.size());
    next_ = 0;
  }
  std::optional<Batch> next() override {
    if (next_ == count_) return std::nullopt;
    if (++next_ == count_) throw DataError("the last picture is damaged");
    const auto pinned = at::TensorOptions(at::kFloat).pinned_memory(true);
    return Batch{at::full(images_, next_, pinned), at::full({8, 5}, -next_, pinned), {next_}};
  }
  bool ready() const override { return true; }
  Figures figures() const override { return {}; }

 private:
  std::vector<int64_t> images_;
  int64_t count_ = 0;
  int64_t next_ = 0;
};

}  // namespace dtrain::test
