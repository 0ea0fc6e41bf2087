#include "dtrain/device/late_copy.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace dtrain {

at::Tensor pinned_like(const at::Tensor& on_device) {
  return at::empty(on_device.sizes(), on_device.options().device(at::kCPU).pinned_memory(true));
}

static at::Tensor begin_copy(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor : pinned_like(tensor).copy_(tensor, /*non_blocking=*/true);
}

LateCopy::LateCopy(const at::Tensor& tensor) : on_host_(begin_copy(tensor)) {
  const c10::Device device = tensor.device();
  if (device.is_cpu()) return;
  there_ = std::make_shared<c10::Event>(device.type());
  there_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

const at::Tensor& LateCopy::wait() const {
  if (there_) there_->synchronize();
  return on_host_;
}

}  // namespace dtrain
