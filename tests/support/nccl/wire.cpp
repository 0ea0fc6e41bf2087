#include "support/nccl/wire.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "support/nccl/patience.hpp"

namespace dtrain::test {

// The file is zero when it is made, and so are these.
struct Wire::Head {
  std::atomic<int32_t> joined;
  std::atomic<int32_t> left;
  std::atomic<int32_t> pids[kMostRanks];
};

struct Wire::Ring {
  static constexpr size_t kRoom = size_t{1} << 15;
  alignas(64) std::atomic<uint64_t> written;  // bytes so far
  alignas(64) std::atomic<uint64_t> taken;
  alignas(64) char room[kRoom];

  size_t put(const char* data, size_t bytes) {
    const uint64_t at = written.load(std::memory_order_relaxed);
    const size_t now = std::min(bytes, kRoom - static_cast<size_t>(at - taken.load(std::memory_order_acquire)));
    if (now == 0) return 0;
    const size_t place = at % kRoom;
    const size_t first = std::min(now, kRoom - place);
    std::memcpy(room + place, data, first);
    std::memcpy(room, data + first, now - first);
    written.store(at + now, std::memory_order_release);
    return now;
  }

  size_t take(char* data, size_t bytes) {
    const uint64_t at = taken.load(std::memory_order_relaxed);
    const size_t now = std::min(bytes, static_cast<size_t>(written.load(std::memory_order_acquire) - at));
    if (now == 0) return 0;
    const size_t place = at % kRoom;
    const size_t first = std::min(now, kRoom - place);
    std::memcpy(data, room + place, first);
    std::memcpy(data + first, room, now - first);
    taken.store(at + now, std::memory_order_release);
    return now;
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int32_t>::is_always_lock_free,
              "words that processes share");

Wire::Wire(std::string path, int ranks, int rank)
    : path_(std::move(path)),
      ranks_(ranks),
      rank_(rank),
      bytes_(4096 + sizeof(Ring) * static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {
  static_assert(sizeof(Head) <= 4096);
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    throw std::runtime_error(path_ + ": " + std::strerror(errno));
  memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory_ == MAP_FAILED) throw std::runtime_error(path_ + ": " + std::strerror(errno));
  head().pids[rank_] = ::getpid();
}

Wire::~Wire() {
  ::munmap(memory_, bytes_);
  if (rank_ == 0) ::unlink(path_.c_str());
}

Wire::Head& Wire::head() const { return *static_cast<Head*>(memory_); }

Wire::Ring& Wire::ring(int from, int to) const {
  return reinterpret_cast<Ring*>(static_cast<char*>(memory_) + 4096)[from * ranks_ + to];
}

// The last one to come unlinks the file: everyone has it mapped, and nothing is left however they end.
void Wire::join() {
  if (++head().joined == ranks_) ::unlink(path_.c_str());
}
void Wire::leave() { ++head().left; }
bool Wire::all_joined() const { return head().joined >= ranks_; }
bool Wire::all_left() const { return head().left >= ranks_; }

bool Wire::a_peer_is_gone() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    const pid_t pid = head().pids[rank];
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) return true;
  }
  return false;
}

static void write_tag(char* tag, uint32_t kind, uint64_t bytes) {
  std::memset(tag, 0, 16);
  std::memcpy(tag, &kind, sizeof kind);
  std::memcpy(tag + 8, &bytes, sizeof bytes);
}

bool Wire::send_some(Part& part) const {
  constexpr size_t kTag = sizeof part.tag;
  if (part.done == 0) write_tag(part.tag, part.kind, part.bytes);
  size_t moved = 0;
  if (part.done < kTag) moved = ring(rank_, part.peer).put(part.tag + part.done, kTag - part.done);
  part.done += moved;
  if (part.done < kTag) return moved > 0;
  const size_t data = ring(rank_, part.peer).put(part.data + (part.done - kTag), part.bytes - (part.done - kTag));
  part.done += data;
  return moved + data > 0;
}

bool Wire::take_some(Part& part) const {
  constexpr size_t kTag = sizeof part.tag;
  if (part.stuck) return false;
  size_t moved = 0;
  if (part.done < kTag) {
    moved = ring(part.peer, rank_).take(part.tag + part.done, kTag - part.done);
    part.done += moved;
    if (part.done < kTag) return moved > 0;
    char wanted[kTag];
    write_tag(wanted, part.kind, part.bytes);
    part.stuck = std::memcmp(wanted, part.tag, kTag) != 0;
    if (part.stuck) return false;
  }
  const size_t data = ring(part.peer, rank_).take(part.data + (part.done - kTag), part.bytes - (part.done - kTag));
  part.done += data;
  return moved + data > 0;
}

// One look at each part whose turn it is.
bool Wire::advance(std::vector<Part>& parts, bool sending, bool& all_done) const {
  bool moved = false;
  uint64_t busy = 0;  // peers with a part that comes first
  for (Part& part : parts) {
    const size_t whole = sizeof part.tag + part.bytes;
    if (part.done == whole && !part.stuck) continue;
    const uint64_t peer = uint64_t{1} << part.peer;
    if ((busy & peer) == 0) moved = (sending ? send_some(part) : take_some(part)) || moved;
    if (part.done == whole && !part.stuck) continue;
    busy |= peer;
    all_done = false;
  }
  return moved;
}

Wire::End Wire::move(std::vector<Part> sends, std::vector<Part> takes, const std::atomic<bool>& stop,
                     bool deaths_show) {
  Patience patience("messages of other ranks");
  for (int64_t quiet = 0;; ++quiet) {
    bool all_done = true;
    const bool sent = advance(sends, true, all_done);
    const bool took = advance(takes, false, all_done);
    if (all_done) return End::done;
    if (stop) return End::stopped;
    if (sent || took) {
      patience = Patience("messages of other ranks");
      quiet = 0;
    } else {
      if (deaths_show && quiet % 200 == 199 && a_peer_is_gone()) return End::peer_gone;
      patience.pause();
    }
  }
}

}  // namespace dtrain::test
