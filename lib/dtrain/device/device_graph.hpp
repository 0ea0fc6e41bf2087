#pragma once
#include <functional>

#include "dtrain/device/mark.hpp"

namespace dtrain {

/// Work on a device, recorded once and then issued again as a whole: a CUDA graph. Hundreds of launches become one.
/// All graphs of a GpuModule share one block of memory, so that several need no more than the largest: they never run
/// at the same time, as one thread replays all of them on one stream. The tensors that a graph's work has made are
/// valid until any graph runs next.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  /// Calls `work` once, here or at the first replay(), and records what it issues to the calling thread's device
  /// instead of executing it: kernels, their arguments and the addresses of the memory they use. `work` may neither
  /// wait for the device nor copy from host memory. Tensors that it makes live in the memory of all graphs; their
  /// values come with replay(), and any graph's replay() may overwrite them. Memory cached for other work is freed
  /// first. Call it only once. Throws DeviceError if the work cannot be recorded, c10::Error (mostly OutOfMemoryError)
  /// if there is not enough memory; the process is then of no further use.
  virtual void record(std::function<void()> work) = 0;

  /// While `work` is recorded, on the thread whose work it is or on backward's: a point behind what has been recorded
  /// so far. Who waits for it waits for that point of the latest replay(), which other work may so overlap.
  virtual Mark mark() = 0;

  /// Issues the recorded work, on the same memory. The graph outlives it.
  virtual void replay() = 0;

  /// Whether another graph has run since this one did: its results are then gone.
  virtual bool overwritten() const = 0;

  /// Frees the unused memory that is cached for work outside graphs. Waits for the device; not while a graph is
  /// being recorded.
  virtual void give_back_memory() = 0;
};

}  // namespace dtrain
