#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/host_gpu/order.hpp"
#include "support/nccl/host_stream.hpp"

namespace dtrain::test {

class Recording;

constexpr c10::DeviceType kHostGpu = c10::kPrivateUse1;

/// A place in a stream: after all that was pushed to it so far.
struct StreamMark {
  const WorkerStream* stream = nullptr;  ///< null: reached already
  int64_t pushed = 0;

  bool reached() const { return stream == nullptr || stream->did(pushed); }
  void wait() const;
};

/// What work on the host's GPU has cost the host so far, as it would on a GPU.
struct HostCosts {
  std::atomic<int64_t> launches{0};    ///< kernels: an operator of LibTorch counts as one, of which some have several
  std::atomic<int64_t> copies{0};      ///< from and to the host
  std::atomic<int64_t> copy_bytes{0};  ///< of these
  std::atomic<int64_t> waits{0};       ///< for a stream or an event; asking for their state does not count
};

/// The streams of the host's GPU, by number; 0 is the default one. They stay for the life of the process.
class HostGpuStreams {
 public:
  static HostGpuStreams& all();
  HostCosts costs;
  std::atomic<int64_t> waits_in_graphs{0};  ///< how often a stream was to wait for a point in a graph
  void start(uint64_t seed, int64_t most_pause_us);

  WorkerStream& stream(c10::StreamId number);
  c10::StreamId make();
  c10::StreamId current() const;
  void make_current(c10::StreamId number);
  StreamMark mark(c10::StreamId number);

  /// Issues work to the calling thread's current stream: `what` names it and `accesses` says what it touches, for
  /// WorkOrder.
  void issue(const std::string& what, const std::vector<Access>& accesses, std::function<void()> work);
  /// What is issued to the stream from now on waits for the mark, and comes after `until`.
  void hold(c10::StreamId number, const StreamMark& mark, const WorkOrder::Clock& until);
  /// The host waits for all that was issued to the stream.
  void wait(c10::StreamId number);
  /// Waits as well, but on behalf of the device: what the host issues next does not count as ordered by it. A GPU would
  /// not wait here.
  void catch_up() { mark(current()).wait(); }
  /// The same for all streams; their numbers.
  std::vector<c10::StreamId> catch_up_all();

  /// From now on work, and the end of memory, fail, as CUDA's calls do after a kernel that read where it may not.
  void fail() { failed_ = true; }
  /// Throws c10::Error after fail().
  void require_sound() const;

  /// What is issued to the streams of this recording goes into it from now on; null: everything runs.
  void record_into(Recording* recording);
  /// What is issued to the stream goes in here; null: it runs.
  Recording* recording(c10::StreamId number) const;

 private:
  struct Impl;
  HostGpuStreams();
  std::unique_ptr<Impl> impl_;
  std::atomic<bool> failed_{false};
};

/// Registers guard, memory, operators and their types under autocast with LibTorch.
void register_host_gpu_guard();
void register_host_gpu_memory();
void register_host_gpu_operators();
void register_host_gpu_autocast();

c10::Allocator& host_gpu_allocator();
/// Memory of the host from which and to which copies run in the background, as cudaHostAlloc() gives it.
c10::Allocator& pinned_allocator();

/// More than this throws c10::OutOfMemoryError; graphs' memory does not count.
void limit_host_gpu_memory(size_t bytes);
size_t host_gpu_memory_peak();  ///< bytes
size_t host_gpu_memory_free();  ///< bytes

/// Memory made by host_gpu_allocator() is used on this stream too.
void lend_host_gpu_memory(const c10::DataPtr& data, c10::StreamId number);
bool is_pinned(const void* data);
/// Pinned memory at this address, which is freed before then, is not used again before the mark is reached.
void keep_pinned_until(const void* data, const StreamMark& mark);

}  // namespace dtrain::test
