#include "dtrain/data/device_batches.hpp"

#include <ATen/ATen.h>

namespace dtrain {

DeviceBatches::DeviceBatches(BatchSource& source, c10::Device device)
    : source_(source), device_(device), side_(device) {}

void DeviceBatches::start(std::vector<BatchRequest> requests) {
  ahead_.reset();
  failure_ = nullptr;
  source_.start(std::move(requests));
}

std::optional<Batch> DeviceBatches::next() {
  if (device_.is_cpu()) return source_.next();
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  std::optional<Batch> batch = std::exchange(ahead_, std::nullopt);
  if (!batch) {
    batch = source_.next();
    if (batch) batch = copied(std::move(*batch));
  }
  side_.join();  // what the network does to the batch comes after its copy
  if (batch) {
    side_.lend_to_current(batch->images);
    side_.lend_to_current(batch->targets);
  }
  if (source_.ready()) {
    try {
      if (auto following = source_.next()) ahead_ = copied(std::move(*following));
    } catch (...) {
      failure_ = std::current_exception();  // told when its turn comes
    }
  }
  return batch;
}

Batch DeviceBatches::copied(Batch batch) {
  SideStream::Scope scope;
  side_.enter(nullptr, scope);
  Batch there;
  there.samples = std::move(batch.samples);
  there.images = batch.images.to(device_, /*non_blocking=*/true);
  there.targets = batch.targets.to(device_, /*non_blocking=*/true);
  return there;  // LibTorch keeps pinned memory until its copies are done
}

}  // namespace dtrain
