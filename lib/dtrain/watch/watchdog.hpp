#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/watch/flight.hpp"
#include "dtrain/watch/peer_link.hpp"
#include "dtrain/watch/stall_judge.hpp"

namespace dtrain {

/// A thread that ends the job when it has stalled: nothing waits forever. It knows section, step and all-reduce of
/// its own rank and of the others: those of its host from memory that they share, those of other hosts by small
/// messages that are never waited for. When it acts and which rank it blames: StallJudge.
/// At a stall every living rank writes its flight record; the lowest of them reports, waits up to 2 s for the records
/// of the others and ends the process; the others end after it. What may block forever (a disk, a terminal) is done on
/// threads that are left behind if they do not return.
class Watchdog {
 public:
  struct Options {
    WatchLimits limits;
    int rank = 0;
    int ranks = 1;  ///< that the launcher started
    std::string host = "localhost";
  };
  /// What to do about a stall; called on threads of the watchdog. The process may be stuck anywhere then, so these must
  /// take no lock that its other threads may hold.
  struct Handlers {
    std::function<void(const std::string&)> warn;  ///< one sentence, on one rank
    std::function<void(const std::string&)> tell;  ///< one sentence, on one rank
    std::function<void()> end;                     ///< ends the process with 76
    std::function<void()> look = [] {};            ///< called before each check of the ranks: a test's clock
  };
  /// Made on the training thread: it is the one whose stack is recorded.
  Watchdog(const Options& options, Handlers handlers);
  ~Watchdog();  ///< stops and joins the threads

  /// The training thread is alive and begins this section of this step. A few atomic stores.
  void enter(Section section, int64_t step);
  /// The next all-reduce begins. Any thread.
  void begin_sum();
  /// The training thread waits for others from here to the end of `Wait`, which counts as progress.
  class Wait {
   public:
    explicit Wait(Watchdog& watchdog);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
  };

  /// What the other ranks need to see this one's state.
  std::string offer() const;
  /// From now on the other ranks are known: their offer()s in order of rank, and `link` to those on other hosts, which
  /// a thread of the watchdog uses from now on.
  void connect(const std::vector<std::string>& offers, std::unique_ptr<PeerLink> link);
  /// Before MPI ends: the other ranks may be gone from now on. Stops using the link.
  void disconnect();

  /// From now on stalls and failures leave a record, by `write`; it may throw.
  void keep_records(std::function<void(const FlightRecord&)> write);
  /// This rank fails with that sentence: writes its record, within at most a second, and lets the others write theirs.
  void note_failure(const std::string& sentence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
