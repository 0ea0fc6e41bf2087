#pragma once
#include <functional>

namespace dtrain {

/// Work on a device, recorded once and then issued again as a whole: a CUDA graph. Hundreds of launches become one.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  /// Calls `work` once, here or at the first replay(), and keeps what it issues to the calling thread's device instead
  /// of doing it: kernels, their arguments and the addresses of the memory they use. `work` may not wait for the device
  /// nor copy from the host's memory. Tensors that it makes live in memory of the graph; their values come with
  /// replay(). Once only. Throws DeviceError where the work cannot be recorded, c10::OutOfMemoryError where its
  /// memory is not to be had; the process is then of no further use.
  virtual void record(std::function<void()> work) = 0;

  /// Issues the recorded work, on the same memory. The graph outlives it.
  virtual void replay() = 0;
};

}  // namespace dtrain
