#pragma once
#include <c10/core/Stream.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/device/device_graph.hpp"
#include "support/host_gpu/order.hpp"
#include "support/host_gpu/streams.hpp"

namespace dtrain::test {

/// Memory that was allocated while a graph was recorded. It is used again once its tensor and the graph are gone.
struct GraphBlock {
  GraphBlock(size_t size, c10::StreamId stream);
  ~GraphBlock();
  GraphBlock(const GraphBlock&) = delete;
  GraphBlock& operator=(const GraphBlock&) = delete;

  void* const data;
  const size_t bytes;
};

/// A point in a graph's work: each replay sets it anew.
class GraphPoint final : public DevicePoint {
 public:
  /// After all that the calling thread has issued to its stream.
  void set();
  /// Throws c10::Error before the first replay, in which work that waits for the point would not wait.
  void hold(const c10::Stream& stream) const override;

 private:
  StreamMark mark_;
  WorkOrder::Clock clock_;
  bool set_ = false;
};

/// What is issued to a stream while a graph is recorded, with CUDA's rules for it in thread-local mode: the host may
/// not wait for the stream; a stream that waits for it is recorded too, and the recorded one must wait for that in the
/// end; the default stream may not wait for it, nor it for work that is not recorded.
///
/// CUDA executes nothing while it records. Here each piece is done at once, since operators are computed by the CPU,
/// which may look at the values; in the end all memory from before has its values back, and new memory holds NaN.
class Recording {
 public:
  struct Piece {
    std::string what;
    std::vector<Access> accesses;
    std::function<void()> work;
  };

  explicit Recording(c10::StreamId stream) : stream_(stream) {}

  /// Does something that take_back() undoes.
  void try_out(const std::vector<Access>& accesses, const std::function<void()>& work);
  /// A replay does this, in the order of these calls.
  void note(Piece piece);
  /// After the pieces that are noted so far.
  std::shared_ptr<const GraphPoint> point();
  /// Memory for a tensor of the graph.
  std::shared_ptr<GraphBlock> allocate(size_t bytes, c10::StreamId stream);

  bool has(c10::StreamId stream) const;  ///< any thread may ask
  /// The stream waits for what was recorded on stream `from` so far.
  void wait(c10::StreamId stream, c10::StreamId from);
  /// Throws c10::Error if the stream that is recorded has not waited for all others.
  void require_joined() const;
  void take_back();

  /// Issues all pieces to the calling thread's stream.
  void replay() const;
  /// Fills the memory of its tensors with NaN, as work of the current stream.
  void spoil() const;

 private:
  bool is_own(const void* data) const;

  c10::StreamId stream_;
  mutable std::mutex mutex_;  // guards others_, as other threads ask for their streams
  std::set<c10::StreamId> others_{};
  std::set<c10::StreamId> not_joined_{};
  std::vector<std::shared_ptr<GraphBlock>> blocks_{};
  std::vector<Piece> pieces_{};
  std::multimap<size_t, std::shared_ptr<GraphPoint>> points_{};  // by the number of pieces before them
  std::vector<std::pair<void*, std::vector<char>>> before_{};  // bytes of earlier memory, in the order of their change
};

/// A graph of the host's GPU. Each replay() fills the memory of all graphs with NaN first.
std::unique_ptr<DeviceGraph> make_host_gpu_graph();

}  // namespace dtrain::test
