#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/words.hpp"

namespace dtrain {

/// What a rank is doing.
enum class Section : int32_t { start, load, compute, reduce, update, evaluate, save, finish };

template <>
inline constexpr auto kWordsOf<Section> = std::to_array<Word<Section>>({{Section::start, "start-up"},
                                                                        {Section::load, "data loading"},
                                                                        {Section::compute, "forward and backward"},
                                                                        {Section::reduce, "all-reduce"},
                                                                        {Section::update, "update"},
                                                                        {Section::evaluate, "evaluation"},
                                                                        {Section::save, "saving"},
                                                                        {Section::finish, "finishing"}});

/// How a rank ends, once it is about to.
enum class Ending : int32_t { none, stalled, failed };

/// What is known about one rank. Plain bytes: it is sent between hosts of one kind as it is in memory.
struct RankState {
  Section section = Section::start;
  Ending ending = Ending::none;
  int64_t step = 0;       ///< updates since the start of the run
  int64_t sums = 0;       ///< all-reduces begun by this process: the number of the one that runs
  uint64_t progress = 0;  ///< grows with every section, all-reduce and exchange of the training thread
  uint64_t beat = 0;      ///< grows while the process runs at all, whatever its training thread does
  int32_t waiting = 0;    ///< 1: the training thread waits for messages of other ranks
  int32_t told = 0;       ///< 1: this rank has reported why the job ends
  int32_t recorded = 0;   ///< 1: its flight record is written, or cannot be
  int32_t same_host = 0;  ///< 1: seen in memory, not by messages
};

/// Where a rank is, for people: "all-reduce 4812 (step 601)", "start-up".
std::string place_of(const RankState& state);

/// One rank's state in memory, for other processes to read while this one writes: separate words, no lock.
/// Reading does not depend on the writer, which may be stopped or gone.
struct alignas(64) RankWords {
  std::atomic<uint64_t> token{0};
  std::atomic<uint64_t> progress{0};
  std::atomic<uint64_t> beat{0};
  std::atomic<int64_t> step{0};
  std::atomic<int64_t> sums{0};
  std::atomic<Section> section{Section::start};
  std::atomic<Ending> ending{Ending::none};
  std::atomic<int32_t> waiting{0};
  std::atomic<int32_t> told{0};
  std::atomic<int32_t> recorded{0};

  RankState read() const;
};

/// A page of memory with this rank's words that other processes of this host can map: an anonymous file, which goes
/// away with the last of them and needs no room in /dev/shm. If the kernel gives none, it is private memory of this
/// process.
class RankPage {
 public:
  RankPage();
  ~RankPage();
  RankPage(const RankPage&) = delete;
  RankPage& operator=(const RankPage&) = delete;

  RankWords& words() { return *words_; }
  /// What other ranks need to find the page: "HOST PID FILE TOKEN".
  std::string offer(const std::string& host) const;

 private:
  int file_ = -1;
  RankWords* words_ = nullptr;
};

/// The states of all ranks as this one sees them: those of its host in memory, the others as last heard. Thread-safe.
class RankTable {
 public:
  /// `own` outlives the table. `offers`: RankPage::offer() of every rank, in order of rank. If a page cannot be mapped
  /// (another host, no permission), its rank is followed by messages.
  RankTable(int rank, const RankWords& own, const std::vector<std::string>& offers);
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const std::string& host(int rank) const { return peers_[static_cast<size_t>(rank)].host; }
  long pid(int rank) const { return peers_[static_cast<size_t>(rank)].pid; }
  bool same_host(int rank) const { return peers_[static_cast<size_t>(rank)].words != nullptr; }

  std::vector<RankState> states() const;

  /// The states of this host's ranks, to be sent to other hosts, and the reader of such a message. One that does not
  /// fit is ignored.
  std::vector<std::byte> message() const;
  void heard(std::span<const std::byte> message);

 private:
  struct Peer {
    std::string host;
    long pid = 0;
    const RankWords* words = nullptr;
    RankState heard;
  };
  int rank_;
  mutable std::mutex mutex_;  // of what was heard
  std::vector<Peer> peers_;
};

}  // namespace dtrain
