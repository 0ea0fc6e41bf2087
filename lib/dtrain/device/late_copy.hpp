#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <memory>

namespace dtrain {

/// Memory for a copy of a GPU's tensor on the host, from and to which a GPU copies in the background.
at::Tensor pinned_like(const at::Tensor& on_device);

/// A tensor's values on their way to the host, as they are after what the calling thread has issued so far. A GPU goes
/// on with what is issued later, for which `tensor.cpu()` would wait, too. On a CPU it is the tensor itself.
class LateCopy {
 public:
  /// Begins the copy, into pinned memory.
  explicit LateCopy(const at::Tensor& tensor);

  /// Waits until it is there. Any thread.
  const at::Tensor& wait() const;

 private:
  at::Tensor on_host_;
  std::shared_ptr<c10::Event> there_;  // none on a CPU
};

}  // namespace dtrain
