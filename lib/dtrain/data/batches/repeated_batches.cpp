#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/batch_source.hpp"

namespace dtrain {

void RepeatedBatches::start(std::vector<BatchRequest> requests) {
  const auto made = [&](const BatchRequest& request) {
    return std::find_if(made_.begin(), made_.end(),
                        [&](const Batch& batch) { return batch.samples.size() == request.samples.size(); });
  };
  for (const BatchRequest& request : requests) {
    if (made(request) != made_.end()) continue;
    source_.start({request});
    std::optional<Batch> batch = source_.next();
    check(batch.has_value(), "a source gives each batch that was asked for");
    made_.push_back(std::move(*batch));
  }
  requests_ = std::move(requests);
  next_ = 0;
}

std::optional<Batch> RepeatedBatches::next() {
  if (next_ == requests_.size()) return std::nullopt;
  const BatchRequest& request = requests_[next_++];
  for (const Batch& batch : made_)
    if (batch.samples.size() == request.samples.size())
      return Batch{batch.images, batch.targets, request.samples, batch.raw};
  throw InternalError("RepeatedBatches: a batch was not made by start()");
}

}  // namespace dtrain
