// A source whose pictures are NaN for some samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dtrain/data/batches/loader.hpp"

namespace dtrain {

class PoisonedBatches final : public BatchSource {
 public:
  PoisonedBatches(BatchSource& source, std::set<int64_t> poisoned) : source_(source), poisoned_(std::move(poisoned)) {}
  void start(std::vector<BatchRequest> requests) override { source_.start(std::move(requests)); }
  std::optional<Batch> next() override {
    std::optional<Batch> batch = source_.next();
    for (size_t i = 0; batch && i < batch->samples.size(); ++i)
      if (poisoned_.contains(batch->samples[i]))
        batch->images[static_cast<int64_t>(i)].fill_(std::numeric_limits<double>::quiet_NaN());
    return batch;
  }
  bool ready() const override { return source_.ready(); }
  Figures figures() const override { return source_.figures(); }

 private:
  BatchSource& source_;
  std::set<int64_t> poisoned_;
};

}  // namespace dtrain
