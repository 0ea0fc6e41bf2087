#include "dtrain/watch/rank_table.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <new>
#include <sstream>

namespace dtrain {

constexpr size_t kPageBytes = 4096;
static_assert(sizeof(RankWords) <= kPageBytes && std::atomic<uint64_t>::is_always_lock_free);

std::string place_of(const RankState& state) {
  std::string place = name_of(state.section);
  if (state.section == Section::start || state.section == Section::finish) return place;
  if (state.section == Section::reduce && state.sums > 0) place += fmt::format(" {}", state.sums);
  return fmt::format("{} (step {})", place, state.step);
}

RankState RankWords::read() const {
  RankState state;
  state.section = section.load();
  state.ending = ending.load();
  state.step = step.load();
  state.sums = sums.load();
  state.progress = progress.load();
  state.beat = beat.load();
  state.waiting = waiting.load();
  state.told = told.load();
  state.recorded = recorded.load();
  return state;
}

RankPage::RankPage() : file_(memfd_create("dtrain-rank", MFD_CLOEXEC)) {
  if (file_ >= 0 && ftruncate(file_, kPageBytes) != 0) {
    close(file_);
    file_ = -1;
  }
  const int flags = file_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  words_ = new (memory) RankWords();
  const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  words_->token.store(now ^ (static_cast<uint64_t>(getpid()) << 40));
}

RankPage::~RankPage() {
  munmap(words_, kPageBytes);
  if (file_ >= 0) close(file_);
}

std::string RankPage::offer(const std::string& host) const {
  return fmt::format("{} {} {} {}", host, getpid(), file_, words_->token.load());
}

// The page of a process on this machine, or null. The token is compared, since the pid may be one of another machine.
static const RankWords* map_page(long pid, int file, uint64_t token) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, file);
  const int opened = file < 0 ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return nullptr;
  const bool large_enough = lseek(opened, 0, SEEK_END) == static_cast<off_t>(kPageBytes);
  void* memory = large_enough ? mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, opened, 0) : MAP_FAILED;
  close(opened);
  if (memory == MAP_FAILED) return nullptr;
  const auto* words = static_cast<const RankWords*>(memory);
  if (words->token.load() == token) return words;
  munmap(memory, kPageBytes);
  return nullptr;
}

RankTable::RankTable(int rank, const RankWords& own, const std::vector<std::string>& offers) : rank_(rank) {
  const std::string own_host = offers[static_cast<size_t>(rank)].substr(0, offers[static_cast<size_t>(rank)].find(' '));
  for (const std::string& offer : offers) {
    Peer peer;
    int file = -1;
    uint64_t token = 0;
    std::istringstream(offer) >> peer.host >> peer.pid >> file >> token;
    if (peers_.size() == static_cast<size_t>(rank))
      peer.words = &own;
    else if (peer.host == own_host)
      peer.words = map_page(peer.pid, file, token);
    peers_.push_back(peer);
  }
}

RankTable::~RankTable() {
  for (size_t r = 0; r < peers_.size(); ++r)
    if (r != static_cast<size_t>(rank_) && peers_[r].words != nullptr)
      munmap(const_cast<RankWords*>(peers_[r].words), kPageBytes);
}

std::vector<RankState> RankTable::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<RankState> states;
  for (const Peer& peer : peers_) {
    states.push_back(peer.words != nullptr ? peer.words->read() : peer.heard);
    states.back().same_host = peer.words != nullptr ? 1 : 0;
  }
  return states;
}

namespace {

struct Line {
  int64_t rank = 0;
  RankState state;
};
static_assert(std::is_trivially_copyable_v<Line>);

}  // namespace

std::vector<std::byte> RankTable::message() const {
  std::vector<std::byte> bytes;
  for (size_t r = 0; r < peers_.size(); ++r) {
    if (peers_[r].words == nullptr) continue;
    const Line line{static_cast<int64_t>(r), peers_[r].words->read()};
    bytes.resize(bytes.size() + sizeof line);
    std::memcpy(bytes.data() + bytes.size() - sizeof line, &line, sizeof line);
  }
  return bytes;
}

void RankTable::heard(std::span<const std::byte> message) {
  const std::lock_guard lock(mutex_);
  for (; message.size() >= sizeof(Line); message = message.subspan(sizeof(Line))) {
    Line line;
    std::memcpy(&line, message.data(), sizeof line);
    if (line.rank < 0 || line.rank >= size()) continue;
    Peer& peer = peers_[static_cast<size_t>(line.rank)];
    // Two ranks of a host may both send for a while; the older message is ignored.
    if (line.state.beat >= peer.heard.beat) peer.heard = line.state;
  }
}

}  // namespace dtrain
