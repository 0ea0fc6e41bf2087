#pragma once
#include <functional>

namespace dtrain {

/// Work on a device, recorded once and then issued again as a whole: a CUDA graph. Hundreds of launches become one.
///
/// All graphs of a GpuModule work in one memory, so that several need no more than the largest: they never run at once,
/// all are replayed by one thread on one stream. What a graph leaves there, the tensors that its work has made, is
/// valid until any graph runs next.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  /// Calls `work` once, here or at the first replay(), and keeps what it issues to the calling thread's device instead
  /// of doing it: kernels, their arguments and the addresses of the memory they use. `work` may not wait for the device
  /// nor copy from the host's memory. Tensors that it makes live in the memory of all graphs; their values come with
  /// replay(), and any graph's replay() may overwrite them. What is cached for other work is given back to the device
  /// before. Once only. Throws DeviceError where the work cannot be recorded, c10::OutOfMemoryError where its memory is
  /// not to be had; the process is then of no further use.
  virtual void record(std::function<void()> work) = 0;

  /// Issues the recorded work, on the same memory. The graph outlives it.
  virtual void replay() = 0;

  /// Whether another graph has run since this one did: nothing that it left is there any more.
  virtual bool overwritten() const = 0;

  /// Gives the memory that is kept ready for work outside graphs, and that nothing holds, back to the device. Waits for
  /// the device; not while a graph is being recorded.
  virtual void give_back_memory() = 0;
};

}  // namespace dtrain
