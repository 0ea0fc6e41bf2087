#include "dtrain/dist/nccl_communicator.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {
namespace {

std::string meaning(NcclResult result) {
  switch (result) {
    case NcclResult::success:
      return "success";
    case NcclResult::unhandled_cuda_error:
      return "a CUDA call failed";
    case NcclResult::system_error:
      return "a system call failed (often too little /dev/shm, or the network)";
    case NcclResult::internal_error:
      return "NCCL failed inside";
    case NcclResult::invalid_argument:
      return "an argument is invalid";
    case NcclResult::invalid_usage:
      return "it is used in a way that NCCL does not allow (two ranks on one GPU?)";
    case NcclResult::remote_error:
      return "a peer or its network failed";
    case NcclResult::in_progress:
      return "in progress";
  }
  return "unknown result " + std::to_string(static_cast<int>(result));
}

constexpr const char* kAlgorithm = "NCCL_ALGO";

std::string chosen_algorithm() {
  const char* value = std::getenv(kAlgorithm);
  return value == nullptr ? "" : value;
}

// Sets NCCL_ALGO=Ring while a communicator starts.
class RingScope {
 public:
  explicit RingScope(bool ring) : ring_(ring) {
    if (ring_) setenv(kAlgorithm, "Ring", 1);
  }
  ~RingScope() {
    if (ring_) unsetenv(kAlgorithm);
  }
  RingScope(const RingScope&) = delete;
  RingScope& operator=(const RingScope&) = delete;

 private:
  bool ring_;
};

// What lies between two looks at NCCL counts as so many seconds of waiting at most: a process that was stopped, or its
// whole machine, has not waited.
constexpr double kLook = 1;

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclApi& api, Communicator& host, double limit_s, bool ring)
      : api_(api), host_(host), limit_s_(limit_s), ring_(ring), rank_(host.rank()), size_(host.size()) {
    const HostMemory memory = host_.share(1, c10::kCPU);
    hosts_ = memory.hosts;
    host_number_ = memory.host;
    NcclApi::Id id;
    NcclResult made = NcclResult::success;
    if (rank_ == 0) made = api_.get_unique_id(id);
    at::Tensor bytes = at::empty({static_cast<int64_t>(id.bytes.size()) + 2}, at::kByte);
    auto* data = bytes.mutable_data_ptr<uint8_t>();
    std::memcpy(data, id.bytes.data(), id.bytes.size());
    data[id.bytes.size()] = static_cast<uint8_t>(made);  // so that no rank waits if there is no id
    // ncclGetUniqueId has read the user's nccl.conf into the environment. Rank 0 decides for all: if only some ranks
    // used a ring, NCCL would hang.
    data[id.bytes.size() + 1] = ring_ && chosen_algorithm().empty() ? 1 : 0;
    broadcast(host_, bytes);
    data = bytes.mutable_data_ptr<uint8_t>();
    std::memcpy(id.bytes.data(), data, id.bytes.size());
    made = static_cast<NcclResult>(data[id.bytes.size()]);
    const bool ask_for_ring = data[id.bytes.size() + 1] != 0;
    if (made != NcclResult::success) fail("ncclGetUniqueId", made);
    try {
      const RingScope scope(ask_for_ring);
      settle("ncclCommInitRankConfig", api_.init_rank(comm_, size_, id, rank_));
      algorithm_ = chosen_algorithm();
      // A first collective may deadlock with allocations on a rank that is still starting.
      barrier(host_);
    } catch (...) {
      failed_ = true;
      close();
      throw;
    }
  }

  ~NcclCommunicator() override { close(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    if (sends.empty() && receives.empty()) return;
    for (const std::vector<Message>* messages : {&sends, &receives})
      for (const Message& message : *messages) require_reachable(message.data);
    require("ncclGroupStart", api_.group_start());
    for (const Message& message : receives)
      note(api_.receive(message.data.data_ptr(), message.data.nbytes(), message.peer, comm_));
    for (const Message& message : sends)
      note(api_.send(message.data.const_data_ptr(), message.data.nbytes(), message.peer, comm_));
    const NcclResult end = api_.group_end();
    const NcclResult inside = std::exchange(noted_, NcclResult::success);
    if (inside != NcclResult::success) fail("ncclSend or ncclRecv", inside);
    settle("ncclGroupEnd", end);
  }

  void all_reduce(at::Tensor& tensor) override {
    require_reachable(tensor);
    check(tensor.scalar_type() == at::kFloat, "floats are added up");
    settle("ncclAllReduce",
           api_.all_reduce(tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel()), comm_));
  }

  bool rings() const override { return ring_; }
  std::string all_reduce_transport() const override {
    return "NCCL's all-reduce" + (algorithm_.empty() ? "" : " (NCCL_ALGO=" + algorithm_ + ")");
  }

  void gather_slices(at::Tensor& tensor) override {
    require_reachable(tensor);
    if (tensor.numel() == 0) return;
    const int64_t whole = slice_of_rank(tensor.numel(), size_, 0).size();
    if (whole * size_ == tensor.numel()) return gather_equal(tensor);
    const Range mine = slice_of_rank(tensor.numel(), size_, rank_);
    at::Tensor padded = at::empty({whole * size_}, tensor.options());
    padded.slice(0, mine.begin, mine.end).copy_(tensor.slice(0, mine.begin, mine.end));
    gather_equal(padded);
    tensor.copy_(padded.slice(0, 0, tensor.numel()));
  }

  HostMemory share(int64_t numel, c10::Device device) override {
    HostMemory memory = unshared_memory(rank_, size_, numel, device);
    memory.hosts = hosts_;
    memory.host = host_number_;
    const std::vector<int>& ranks = memory.ranks();
    memory.local = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
    memory.note = "NCCL between GPUs";
    return memory;
  }

  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<NcclCommunicator>(api_, host_, limit_s_, ring_);
  }

  void limit_waits(double seconds) override { limit_s_ = seconds; }

  void require_healthy() override {
    NcclResult state = NcclResult::success;
    require("ncclCommGetAsyncError", api_.async_error(comm_, state));
    if (state != NcclResult::in_progress) require("a sum over ranks", state);
    // A peer that dies on NVLink may never show in that state.
    const double now = alive_.seconds();
    waited_s_ = waited_s_ + std::min(now - looked_at_s_.exchange(now), kLook);
    require_in_time("a sum over ranks", waited_s_);
  }

 private:
  void gather_equal(at::Tensor& tensor) {
    settle("ncclAllGather",
           api_.all_gather(tensor.mutable_data_ptr(), tensor.nbytes() / static_cast<size_t>(size_), rank_, comm_));
  }

  // NCCL carries out a call in the background; until that is done, the communicator must not be used for anything else.
  void settle(const char* call, NcclResult result) {
    constexpr double kBusy = 300e-6;  // most calls take less, and a sleep no less than 100 us
    double waited_s = 0;
    for (Stopwatch look; result == NcclResult::in_progress;) {
      NcclResult state = NcclResult::success;
      require("ncclCommGetAsyncError", api_.async_error(comm_, state));
      result = state;
      if (result != NcclResult::in_progress) break;
      waited_s += std::min(look.seconds(), kLook);
      look.restart();
      require_in_time(call, waited_s);
      if (waited_s < kBusy)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    require(call, result);
    looked_at_s_ = alive_.seconds();
    waited_s_ = 0;
  }

  void require_in_time(const char* call, double waited_s) {
    if (waited_s <= limit_s_) return;
    failed_ = true;
    throw Error(exit_code::kStalled, std::string(call) + " was not carried out for " + fixed(limit_s_, 1) +
                                         " s: a peer is gone or the network is down");
  }

  void require_reachable(const at::Tensor& tensor) const {
    check(tensor.is_contiguous() && tensor.device().type() == api_.memory(),
          "a tensor that travels by NCCL is contiguous and on a GPU");
  }

  void note(NcclResult result) {
    if (result != NcclResult::success && result != NcclResult::in_progress) noted_ = result;
  }

  void require(const char* call, NcclResult result) {
    if (result != NcclResult::success) fail(call, result);
  }

  [[noreturn]] void fail(const char* call, NcclResult result) {
    failed_ = true;
    const std::string words = api_.last_error(comm_);
    const std::string sentence =
        std::string(call) + " failed: " + meaning(result) + (words.empty() ? "" : " (" + words + ")");
    if (result == NcclResult::invalid_argument) throw InternalError(sentence);
    if (result == NcclResult::unhandled_cuda_error && words.find("out of memory") != std::string::npos)
      throw Error(exit_code::kOutOfMemory,
                  sentence + "; NCCL's buffers need room on the GPU beside the training's: lower batch.per_rank");
    throw CommError(sentence + "; NCCL_DEBUG=INFO says more");
  }

  // A healthy communicator is finalized together with its peers. After a failure, or while an exception unwinds this
  // thread, it is aborted, because the peers may never get here.
  void close() {
    if (comm_ == nullptr) return;
    if (!failed_ && std::uncaught_exceptions() == 0) {
      try {
        settle("ncclCommFinalize", api_.finalize(comm_));
        api_.destroy(std::exchange(comm_, nullptr));
        return;
      } catch (const Error&) {  // a destructor cannot report it; the peers' own calls fail
      }
    }
    api_.abort(std::exchange(comm_, nullptr));
  }

  NcclApi& api_;
  Communicator& host_;
  double limit_s_;
  bool ring_;
  int rank_;
  int size_;
  std::vector<std::vector<int>> hosts_;
  size_t host_number_ = 0;
  std::string algorithm_;  // NCCL_ALGO when this communicator started
  NcclApi::Handle comm_ = nullptr;
  std::atomic<bool> failed_ = false;
  const Stopwatch alive_;
  std::atomic<double> looked_at_s_ = 0;  // in seconds of alive_
  std::atomic<double> waited_s_ = 0;     // since the last call had been carried out
  NcclResult noted_ = NcclResult::success;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(NcclApi& api, Communicator& host, double limit_s, bool ring) {
  return std::make_unique<NcclCommunicator>(api, host, limit_s, ring);
}

}  // namespace dtrain
