#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

struct CUstream_st;

namespace dtrain::test {

/// What the tests' NCCL finds behind a cudaStream_t: a queue of work on a device whose memory is the host's.
class HostStream {
 public:
  virtual ~HostStream() = default;
  /// `work` runs after all that was pushed before it.
  virtual void push(std::function<void()> work) = 0;

  /// As CUDA's functions take it, and back.
  CUstream_st* handle() { return reinterpret_cast<CUstream_st*>(this); }
  static HostStream* behind(CUstream_st* handle) { return reinterpret_cast<HostStream*>(handle); }
};

/// Runs work while it is pushed, as CUDA does with CUDA_LAUNCH_BLOCKING=1. One for all threads.
class PromptStream final : public HostStream {
 public:
  void push(std::function<void()> work) override { work(); }
};

/// Runs work on a thread of its own, each piece after a pause of up to `most_pause_us`, and every 16th or so of up to
/// 30 times as much: longer than it takes to issue what should wait. Drawn by `seed`.
class WorkerStream final : public HostStream {
 public:
  WorkerStream(uint64_t seed, int64_t most_pause_us);
  ~WorkerStream() override;  ///< after all of its work
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  void push(std::function<void()> work) override;
  /// How many pieces were pushed so far, and whether the first `count` of them are done.
  int64_t pushed() const { return pushed_; }
  bool did(int64_t count) const { return done_ >= count; }
  bool idle() const { return did(pushed()); }
  /// Nothing that has not begun runs until release().
  void hold();
  void release();

 private:
  void run();

  uint64_t seed_;
  int64_t most_pause_us_;
  std::atomic<int64_t> pushed_{0};
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool held_ = false;
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace dtrain::test
