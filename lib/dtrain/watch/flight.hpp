#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/watch/rank_table.hpp"

namespace dtrain {

/// What one rank records about itself and the others when the job stalls or fails.
struct FlightRecord {
  struct Event {
    double ago_s = 0;  ///< before the record was made
    std::string what;  ///< a section's name; "all-reduce begins"
    int64_t step = 0;
    int64_t sums = 0;  ///< all-reduces begun so far
  };
  struct Peer {
    int rank = 0;
    std::string host;
    long pid = 0;
    std::string section;
    int64_t step = 0;
    int64_t sums = 0;
    double still_s = 0;  ///< since its last progress
    bool alive = true;   ///< gave a sign of life
  };
  int rank = 0;
  int ranks = 1;
  std::string host;
  long pid = 0;
  std::string reason;    ///< "stall", "stopped" (until the others had given up), "failure", "failure of another rank"
  std::string sentence;  ///< what this rank has to say
  std::vector<int> waited_for;     ///< ranks that are behind, in case of a stall
  std::vector<Peer> peers;         ///< all ranks as this one saw them, itself among them
  std::vector<Event> events;       ///< the last ones, oldest first
  std::vector<std::string> stack;  ///< of the training thread, innermost call first; empty if it gave none
};

/// The last sections and all-reduces of a rank. Any thread may note one: a few atomic stores and a look at the clock.
class FlightRecorder {
 public:
  void note(bool is_sum, Section section, int64_t step, int64_t sums);
  /// Oldest first. One that is being written at that moment may be wrong.
  std::vector<FlightRecord::Event> recent() const;

 private:
  static constexpr uint64_t kEvents = 128;
  struct Entry {
    std::atomic<int64_t> when{0};  // steady clock
    std::atomic<int64_t> step{0};
    std::atomic<int64_t> sums{0};
    std::atomic<int32_t> what{-1};  // a Section; -1: an all-reduce
  };
  std::array<Entry, kEvents> entries_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace dtrain
