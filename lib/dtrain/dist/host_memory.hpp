#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtrain {

/// One rank's word in a HostBarrier, alone on its cache line. Initially zero.
struct alignas(64) BarrierWord {
  std::atomic<uint32_t> arrived{0};  ///< barriers that this rank has reached
  std::atomic<uint32_t> sleepers{0};
};

/// Where the ranks of one host wait for each other without messages: words in memory that all of them see, in one
/// process or several. A wait spins for some 50 µs, then sleeps in the kernel (futex), because compute and loader
/// threads need the core. What a rank wrote before a barrier is visible to the others after it.
class HostBarrier {
 public:
  HostBarrier() = default;
  /// `words`: one per rank of the host, shared; `mine`: this rank's place among them. `given_up`: becomes true when a
  /// rank has failed and will not come; null if a failing rank ends the others.
  HostBarrier(std::vector<BarrierWord*> words, size_t mine, const std::atomic<bool>* given_up = nullptr)
      : words_(std::move(words)), mine_(mine), given_up_(given_up) {}
  /// Throws CommError when a rank has given up.
  void wait();

 private:
  void wait_for(BarrierWord& word) const;

  std::vector<BarrierWord*> words_;
  size_t mine_ = 0;
  const std::atomic<bool>* given_up_ = nullptr;
  uint32_t reached_ = 0;
};

/// How the ranks are distributed over hosts, and float memory that the ranks of one host share: each has a segment, and
/// reads and writes those of the others. If memory cannot be shared, `note` says why, and every rank has only its own.
/// Made by Communicator::share().
struct HostMemory {
  std::vector<std::vector<int>> hosts;  ///< ranks of each host, ascending; hosts in the order of their first rank
  size_t host = 0;                      ///< this rank's host
  size_t local = 0;                     ///< this rank's place among hosts[host]
  std::vector<at::Tensor> segments;     ///< of the ranks hosts[host], float32 [numel], zero at first; with a note
                                        ///< this rank's alone
  HostBarrier barrier;                  ///< of the ranks hosts[host]; with a note it does not wait
  std::string note;                     ///< why ranks of one host do not share memory; "" = they do
  std::shared_ptr<void> keep_alive;     ///< owns the memory behind `segments`, if anything does

  const std::vector<int>& ranks() const { return hosts[host]; }
};

/// Each of `ranks` ranks alone, with its own memory on `device`.
HostMemory unshared_memory(int rank, int ranks, int64_t numel, c10::Device device);

}  // namespace dtrain
