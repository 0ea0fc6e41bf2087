#include "support/host_gpu/order.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace dtrain::test {
namespace {

using Clock = WorkOrder::Clock;

constexpr size_t kMostFaults = 20;  // one mistake shows in every step

// The `at`th piece of work of a stream.
struct Piece {
  int64_t stream = 0;
  int64_t at = 0;
  const std::string* what = nullptr;
};

int64_t of_stream(const Clock& clock, int64_t stream) {
  return static_cast<size_t>(stream) < clock.size() ? clock[static_cast<size_t>(stream)] : 0;
}

bool comes_before(const Piece& piece, const Clock& clock) { return piece.at <= of_stream(clock, piece.stream); }

void move_to(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// Neighbouring bytes of a block with the same past: who wrote them last, and who has read them since.
struct Part {
  size_t end = 0;
  Piece written;
  std::vector<Piece> read{};  // one for each stream, its latest
};

struct WatchedBlock {
  size_t bytes = 0;
  int64_t stream = 0;              // that it was allocated on
  std::map<size_t, Part> parts{};  // by their first byte; they cover the block
};

// Makes a part begin at this byte.
void cut(WatchedBlock& block, size_t at) {
  if (at >= block.bytes) return;
  const auto part = std::prev(block.parts.upper_bound(at));
  if (part->first == at) return;
  block.parts.emplace(at, part->second);
  part->second.end = at;
}

void note_read(Part& part, const Piece& by) {
  for (Piece& earlier : part.read)
    if (earlier.stream == by.stream) {
      earlier = by;
      return;
    }
  part.read.push_back(by);
}

}  // namespace

struct WorkOrder::Impl {
  std::mutex mutex;  // guards all below
  std::map<int64_t, Clock> streams;
  Clock host;
  std::map<const char*, WatchedBlock> blocks;
  std::set<std::string> names;  // of pieces of work, which point here
  std::map<int64_t, std::map<std::string, int64_t>> counts;
  std::vector<std::string> faults;
  bool ends_at_fault = false;

  Clock& clock_of(int64_t stream) {
    Clock& clock = streams[stream];
    if (clock.size() <= static_cast<size_t>(stream)) clock.resize(static_cast<size_t>(stream) + 1);
    return clock;
  }

  void fault(const std::string& sentence) {
    if (ends_at_fault) {
      std::fprintf(stderr, "the host's GPU: error: %s\n", sentence.c_str());
      std::abort();
    }
    if (faults.size() < kMostFaults) faults.push_back(sentence);
  }

  void meet(const Piece& earlier, const char* did, const Piece& later, const char* does, const Clock& clock) {
    if (comes_before(earlier, clock)) return;
    fault(*later.what + " on stream " + std::to_string(later.stream) + " " + does + " memory that " + *earlier.what +
          " on stream " + std::to_string(earlier.stream) + " " + did + ", and nothing orders the two");
  }

  void touch(const Access& access, const Piece& by, const Clock& clock) {
    const auto* first = static_cast<const char*>(access.data);
    auto found = blocks.upper_bound(first);
    if (found == blocks.begin() || std::prev(found)->first + std::prev(found)->second.bytes < first + access.bytes) {
      fault(*by.what + " on stream " + std::to_string(by.stream) + " uses memory that is not the device's");
      return;
    }
    WatchedBlock& block = std::prev(found)->second;
    const auto begin = static_cast<size_t>(first - std::prev(found)->first);
    const size_t end = begin + access.bytes;
    cut(block, begin);
    cut(block, end);
    const char* const does = access.writes ? "writes" : "reads";
    const auto past_end = block.parts.lower_bound(end);
    for (auto part = block.parts.find(begin); part != past_end; ++part) {
      meet(part->second.written, "writes", by, does, clock);
      if (!access.writes) note_read(part->second, by);
      for (const Piece& reader : part->second.read)
        if (access.writes) meet(reader, "reads", by, does, clock);
    }
    if (!access.writes) return;
    block.parts.erase(block.parts.find(begin), past_end);
    block.parts.emplace(begin, Part{end, by});
  }
};

WorkOrder::WorkOrder() : impl_(std::make_unique<Impl>()) {}

WorkOrder& WorkOrder::all() {
  static auto* order = new WorkOrder;  // memory may be freed until the process ends
  return *order;
}

void WorkOrder::issue(int64_t stream, const std::string& what, const std::vector<Access>& accesses) {
  const std::lock_guard lock(impl_->mutex);
  Clock& clock = impl_->clock_of(stream);
  move_to(clock, impl_->host);
  const Piece piece{stream, ++clock[static_cast<size_t>(stream)], &*impl_->names.insert(what).first};
  ++impl_->counts[stream][what];
  for (const Access& access : accesses)
    if (access.bytes > 0) impl_->touch(access, piece, clock);
}

Clock WorkOrder::reached(int64_t stream) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->clock_of(stream);
}

void WorkOrder::hold(int64_t stream, const Clock& until) {
  const std::lock_guard lock(impl_->mutex);
  move_to(impl_->clock_of(stream), until);
}

void WorkOrder::host_waited(const Clock& until) {
  const std::lock_guard lock(impl_->mutex);
  move_to(impl_->host, until);
}

void WorkOrder::allocate(const void* data, size_t bytes, int64_t stream) {
  if (bytes == 0) return;
  const std::lock_guard lock(impl_->mutex);
  const Clock& clock = impl_->clock_of(stream);
  const Piece earlier_use{stream, clock[static_cast<size_t>(stream)], &*impl_->names.insert("earlier work").first};
  WatchedBlock& block = impl_->blocks[static_cast<const char*>(data)];
  block = {bytes, stream};
  block.parts.emplace(0, Part{bytes, earlier_use});
}

void WorkOrder::release(const void* data, const std::vector<int64_t>& lent) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->blocks.find(static_cast<const char*>(data));
  if (found == impl_->blocks.end()) return;
  const WatchedBlock& block = found->second;
  Clock safe = impl_->clock_of(block.stream);
  move_to(safe, impl_->host);
  for (const int64_t stream : lent) move_to(safe, impl_->clock_of(stream));
  const auto require_done = [&](const Piece& piece) {
    if (comes_before(piece, safe)) return;
    impl_->fault(*piece.what + " on stream " + std::to_string(piece.stream) + " may still use memory of stream " +
                 std::to_string(block.stream) + " when it is freed");
  };
  for (const auto& [begin, part] : block.parts) {
    require_done(part.written);
    for (const Piece& reader : part.read) require_done(reader);
  }
  impl_->blocks.erase(found);
}

std::map<int64_t, std::map<std::string, int64_t>> WorkOrder::counts() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

void WorkOrder::end_at_fault() {
  const std::lock_guard lock(impl_->mutex);
  impl_->ends_at_fault = true;
}

std::vector<std::string> WorkOrder::take_faults() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->faults, {});
}

}  // namespace dtrain::test
