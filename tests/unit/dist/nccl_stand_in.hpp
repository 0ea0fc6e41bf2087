#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dtrain/device/nccl_api.hpp"

namespace dtrain::test {

/// What the stand-ins of one job share: bytes that are being sent between ranks.
struct NcclWire {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> boxes;  // from, to
  std::map<std::string, int> arrived;                                  // ranks that have given an id
};

/// NCCL on host memory between threads, one for each rank, that records every call. It is as slow as a non-blocking
/// communicator may be: a call is in progress until async_error() was called a few times and the peers have done their
/// part, and meanwhile it refuses (invalid_usage) every other call.
class StandInNccl final : public NcclApi {
 public:
  explicit StandInNccl(std::shared_ptr<NcclWire> wire) : wire_(std::move(wire)) {}

  std::vector<std::string> calls;
  Id id_given;
  std::string algorithm_given;  ///< NCCL_ALGO when the communicator started
  /// The named call returns this; for "later" the communicator fails after a call has been carried out.
  std::map<std::string, NcclResult> failing;
  std::string said = "the stand-in's words";  ///< about what failed
  c10::DeviceType memory_type = c10::kCPU;
  /// The named call is never carried out.
  std::string hanging;

  c10::DeviceType memory() const override { return memory_type; }
  NcclResult get_unique_id(Id& id) override;
  NcclResult init_rank(Handle& comm, int ranks, const Id& id, int rank) override;
  NcclResult async_error(Handle comm, NcclResult& state) override;
  NcclResult group_start() override;
  NcclResult group_end() override;
  NcclResult send(const void* data, size_t bytes, int peer, Handle comm) override;
  NcclResult receive(void* data, size_t bytes, int peer, Handle comm) override;
  NcclResult all_reduce(float* data, size_t numel, Handle comm) override;
  NcclResult all_gather(void* all, size_t bytes, int rank, Handle comm) override;
  NcclResult finalize(Handle comm) override;
  NcclResult destroy(Handle comm) override;
  NcclResult abort(Handle comm) override;
  std::string last_error(Handle) override { return said; }
  std::string version() override { return "stand-in"; }

 private:
  struct Post {
    const char* data;
    size_t bytes;
    int peer;
  };
  struct Receive {
    char* data;
    size_t bytes;
    int peer;
  };
  NcclResult begin(const std::string& call, const std::string& words, std::function<bool()> carry_out);
  NcclResult told(const std::string& call) const;
  bool deliver();

  std::shared_ptr<NcclWire> wire_;
  int rank_ = 0;
  int ranks_ = 1;
  bool in_group_ = false;
  std::vector<Post> posts_;
  std::vector<Receive> receives_;
  std::function<bool()> pending_;  // of the call in progress: true once it is carried out
  int looks_ = 0;
};

}  // namespace dtrain::test
