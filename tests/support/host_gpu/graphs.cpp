#include "support/host_gpu/graphs.hpp"

#include <algorithm>
#include <cstring>

#include "dtrain/base/error.hpp"
#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

constexpr int kNan = 0xFF;  // as every byte of a float or double

// What all graphs of the process share.
struct Graphs {
  c10::StreamId stream = HostGpuStreams::all().make();
  std::vector<const Recording*> recorded;
  const DeviceGraph* ran_last = nullptr;
};

Graphs& all_graphs() {
  static auto* graphs = new Graphs;
  return *graphs;
}

// While it lives, what the calling thread issues goes into the recording.
class InRecording {
 public:
  explicit InRecording(Recording& recording) : before_(HostGpuStreams::all().current()) {
    HostGpuStreams::all().make_current(all_graphs().stream);
    HostGpuStreams::all().record_into(&recording);
  }
  ~InRecording() {
    HostGpuStreams::all().record_into(nullptr);
    HostGpuStreams::all().make_current(before_);
  }
  InRecording(const InRecording&) = delete;
  InRecording& operator=(const InRecording&) = delete;

 private:
  c10::StreamId before_;
};

class HostGpuGraph final : public DeviceGraph {
 public:
  ~HostGpuGraph() override {
    std::erase(all_graphs().recorded, &recording_);
    if (all_graphs().ran_last == this) all_graphs().ran_last = nullptr;
  }

  void record(std::function<void()> work) override {
    HostGpuStreams::all().wait(HostGpuStreams::all().current());
    std::string failure;
    {
      const InRecording scope(recording_);
      try {
        work();
        recording_.require_joined();
      } catch (const c10::Error& error) {
        failure = error.what_without_backtrace();
      }
    }
    recording_.take_back();
    if (!failure.empty()) throw DeviceError("recording a step failed: " + failure);
    all_graphs().recorded.push_back(&recording_);
  }

  Mark mark() override {
    TORCH_CHECK(HostGpuStreams::all().recording(HostGpuStreams::all().current()) == &recording_,
                "a graph is marked that is not being recorded");
    return recording_.point();
  }

  void replay() override {
    all_graphs().ran_last = this;
    for (const Recording* recorded : all_graphs().recorded) recorded->spoil();
    recording_.replay();
  }

  bool overwritten() const override { return all_graphs().ran_last != nullptr && all_graphs().ran_last != this; }
  void give_back_memory() override { HostGpuStreams::all().wait(HostGpuStreams::all().current()); }

 private:
  Recording recording_{all_graphs().stream};
};

}  // namespace

void GraphPoint::set() {
  const c10::StreamId current = HostGpuStreams::all().current();
  mark_ = HostGpuStreams::all().mark(current);
  clock_ = WorkOrder::all().reached(current);
  set_ = true;
}

void GraphPoint::hold(const c10::Stream& stream) const {
  TORCH_CHECK(set_, "a stream waits for a point in a graph that has not run");
  HostGpuStreams::all().hold(stream.id(), mark_, clock_);
  ++HostGpuStreams::all().waits_in_graphs;
}

void Recording::try_out(const std::vector<Access>& accesses, const std::function<void()>& work) {
  for (const Access& access : accesses)
    if (access.writes && access.bytes > 0 && !is_own(access.data)) {
      auto* const first = static_cast<char*>(const_cast<void*>(access.data));
      before_.emplace_back(first, std::vector<char>(first, first + access.bytes));
    }
  work();
}

void Recording::note(Piece piece) {
  const c10::StreamId current = HostGpuStreams::all().current();
  if (current != stream_) not_joined_.insert(current);
  pieces_.push_back(std::move(piece));
}

std::shared_ptr<const GraphPoint> Recording::point() {
  TORCH_CHECK(not_joined_.empty(), "a graph is marked where streams that it waits for later are at work");
  return points_.emplace(pieces_.size(), std::make_shared<GraphPoint>())->second;
}

void Recording::replay() const {
  for (size_t i = 0; i <= pieces_.size(); ++i) {
    for (auto [point, end] = points_.equal_range(i); point != end; ++point) point->second->set();
    if (i < pieces_.size()) HostGpuStreams::all().issue(pieces_[i].what, pieces_[i].accesses, pieces_[i].work);
  }
}

std::shared_ptr<GraphBlock> Recording::allocate(size_t bytes, c10::StreamId stream) {
  return blocks_.emplace_back(std::make_shared<GraphBlock>(bytes, stream));
}

bool Recording::is_own(const void* data) const {
  const auto* const at = static_cast<const char*>(data);
  return std::any_of(blocks_.begin(), blocks_.end(), [at](const auto& block) {
    const auto* const first = static_cast<const char*>(block->data);
    return at >= first && at < first + block->bytes;
  });
}

bool Recording::has(c10::StreamId stream) const {
  const std::lock_guard lock(mutex_);
  return stream == stream_ || others_.contains(stream);
}

void Recording::wait(c10::StreamId stream, c10::StreamId from) {
  if (has(stream)) {
    not_joined_.erase(from);
    return;
  }
  TORCH_CHECK(stream != 0, "the default stream cannot wait for one that is being recorded");
  const std::lock_guard lock(mutex_);
  others_.insert(stream);
  not_joined_.insert(stream);
}

void Recording::require_joined() const {
  TORCH_CHECK(not_joined_.empty(), "the stream that is recorded has not waited for another one that waited for it");
}

void Recording::take_back() {
  for (auto change = before_.rbegin(); change != before_.rend(); ++change)
    std::memcpy(change->first, change->second.data(), change->second.size());
  before_.clear();
  for (const auto& block : blocks_) std::memset(block->data, kNan, block->bytes);
}

void Recording::spoil() const {
  std::vector<Access> accesses;
  for (const auto& block : blocks_) accesses.push_back({block->data, block->bytes, true});
  HostGpuStreams::all().issue("another graph", accesses, [accesses] {
    for (const Access& access : accesses) std::memset(const_cast<void*>(access.data), kNan, access.bytes);
  });
}

std::unique_ptr<DeviceGraph> make_host_gpu_graph() { return std::make_unique<HostGpuGraph>(); }

}  // namespace dtrain::test
