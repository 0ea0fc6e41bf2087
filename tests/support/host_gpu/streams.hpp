#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <functional>
#include <memory>

#include "support/nccl/host_stream.hpp"

namespace dtrain::test {

constexpr c10::DeviceType kHostGpu = c10::kPrivateUse1;

/// The streams of the host's GPU, by number; 0 is the default one. They stay for the life of the process.
class HostGpuStreams {
 public:
  static HostGpuStreams& all();
  void start(uint64_t seed, int64_t most_pause_us);

  WorkerStream& stream(c10::StreamId number);
  c10::StreamId make();
  c10::StreamId current() const;
  void make_current(c10::StreamId number);

  /// Issues work to the calling thread's current stream.
  void issue(std::function<void()> work) { stream(current()).push(std::move(work)); }
  void wait(c10::StreamId number);

 private:
  struct Impl;
  HostGpuStreams();
  std::unique_ptr<Impl> impl_;
};

/// Set once all work issued to a stream before it has been done.
using Reached = std::shared_ptr<std::atomic<bool>>;
Reached mark_on(c10::StreamId number);
void wait_for(const Reached& reached);

/// Registers allocator, guard and operators with LibTorch.
void register_host_gpu_memory();
void register_host_gpu_guard();

/// Memory made by the allocator is used on this stream too.
void lend_host_gpu_memory(const c10::DataPtr& data, c10::StreamId number);

c10::Allocator& host_gpu_allocator();

}  // namespace dtrain::test
