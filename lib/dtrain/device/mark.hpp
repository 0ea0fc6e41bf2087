#pragma once
#include <c10/core/Stream.h>

#include <memory>

namespace dtrain {

/// A point in the work of a device.
class DevicePoint {
 public:
  virtual ~DevicePoint() = default;
  /// What is issued to `stream` from now on runs after it. Any thread.
  virtual void hold(const c10::Stream& stream) const = 0;
};

/// Null on a CPU, where work is done when it is issued.
using Mark = std::shared_ptr<const DevicePoint>;

}  // namespace dtrain
