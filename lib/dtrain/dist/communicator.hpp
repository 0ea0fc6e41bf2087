#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/shards.hpp"

namespace at {
class Tensor;
}
namespace c10 {
struct Device;
}

namespace dtrain {

struct HostMemory;  // host_memory.hpp
struct Message;     // message.hpp

/// The ranks of a job and what carries their tensors. Nearly everything (broadcast, gather, the sums) is built on
/// exchange() in collectives.hpp and bucket_sum.hpp, so that a transport is one small file: MPI, threads in one
/// process, serial, NCCL.
///
/// One thread at a time uses a communicator; a second thread takes its own duplicate(). All ranks make the same calls
/// in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends and receives all of them as one group and returns when all are done: the memory may then be used again. For
  /// NCCL that holds for what the calling thread issues to its CUDA stream from then on.
  /// Between two ranks, messages arrive in the order they were sent; sizes and types must agree on both sides.
  /// With one rank both lists are empty. Throws CommError.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) = 0;

  /// The transport's own all-reduce: `tensor` (contiguous, float32) becomes the sum over all ranks, in an order that
  /// the transport chooses and that may differ with the number of ranks. With one rank nothing happens. limit_waits()
  /// applies to NCCL; with MPI a stalled peer is left to the watchdog. Throws CommError.
  virtual void all_reduce(at::Tensor& tensor) = 0;
  /// True if all_reduce() uses a ring of neighbours by itself.
  virtual bool rings() const { return false; }
  /// How all_reduce() travels, for people.
  virtual std::string all_reduce_transport() const { return "messages"; }

  /// Every rank gets what the others have in their slices of `tensor` (contiguous, one dimension, of the same length
  /// everywhere): slice_of_rank() of its length. With one rank nothing changes. Throws CommError.
  virtual void gather_slices(at::Tensor& tensor);

  /// Memory on `device` that the ranks of one host share, a segment of `numel` floats each. All ranks call it together.
  /// If that is not possible (GPUs, no room, or told not to), all ranks get separate segments and a note why; whether
  /// ranks of one host are still grouped is up to the transport. Throws CommError.
  virtual HostMemory share(int64_t numel, c10::Device device) = 0;

  /// A second, independent channel between the same ranks, for another thread. All ranks call it together. Must not
  /// outlive the session it came from.
  virtual std::unique_ptr<Communicator> duplicate() = 0;

  /// From now on an exchange() that is not done after `seconds` throws CommError; the communicator is then unusable.
  /// Duplicates start without a limit: a wait ends when its peers do (threads: 60 s), and the watchdog ends a rank.
  virtual void limit_waits(double seconds) = 0;

  /// For a caller that waits for the device: throws CommError when the transport has failed since its last call
  /// returned, and Error with kStalled when its limit has passed since then. Only one that works in the background can
  /// fail like this: NCCL.
  virtual void require_healthy() {}
};

/// The share of rank `rank` of `ranks` in `length` elements in gather_slices(): equal pieces of ⌈length ÷ ranks⌉
/// elements, rounded up to four, the last ones shorter or empty. So every piece of floats begins where the whole does
/// or a multiple of 16 bytes behind it.
Range slice_of_rank(int64_t length, int ranks, int rank);

/// The only rank of a job with one rank.
std::unique_ptr<Communicator> make_serial_communicator();

}  // namespace dtrain
