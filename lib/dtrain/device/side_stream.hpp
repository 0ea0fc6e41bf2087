#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "dtrain/device/mark.hpp"

namespace dtrain {

/// A second queue of work beside training's, for a second thread. On a GPU it is a CUDA stream, and the order between
/// the two is given to the device by events: no thread waits. On a CPU all of this does nothing.
///
///   const Mark ready = side.mark();                                  // one thread: all that it has issued so far
///   { SideStream::Scope scope; side.enter(ready, scope); …work… }    // another: runs on the device after that
///   while (!side.idle()) …;  side.join();                            // the first: goes on after the other's work
///
/// enter() and its work: one thread at a time.
class SideStream {
 public:
  explicit SideStream(c10::Device device);

  /// After all that the calling thread has issued to the device so far.
  Mark mark() const;

  /// While it lives the calling thread issues to the side stream.
  using Scope = std::optional<c10::StreamGuard>;
  void enter(const Mark& after, Scope& scope) const;

  /// True when the device has done all work that has been issued to the side stream.
  bool idle() const;
  /// What the calling thread issues from now on runs after everything issued to the side stream so far.
  void join() const;
  /// For a tensor that was made on the side stream and is read on the calling thread's from now on: its memory is not
  /// used again before that thread's work on it is done.
  void lend_to_current(const at::Tensor& tensor) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // none on a CPU
};

}  // namespace dtrain
