#include "dtrain/device/late_copy.hpp"

#include <ATen/ATen.h>

namespace dtrain {

static at::Tensor begin_copy(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const auto pinned = tensor.options().device(c10::kCPU).pinned_memory(true);
  return at::empty(tensor.sizes(), pinned).copy_(tensor, /*non_blocking=*/true);
}

LateCopy::LateCopy(const at::Tensor& tensor) : on_host_(begin_copy(tensor)), there_(mark_current(tensor.device())) {}

const at::Tensor& LateCopy::wait() const {
  if (there_) there_->synchronize();
  return on_host_;
}

}  // namespace dtrain
