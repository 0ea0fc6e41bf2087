#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/watch/options.hpp"
#include "dtrain/watch/rank_table.hpp"

namespace dtrain {

/// Decides from the states of all ranks whether the job has stalled, and which rank is behind. No clock, no thread: the
/// caller says how much time has passed, so that everything can be tested with made-up states.
/// The rule. A job has stalled while no rank makes progress: as long as any of them does, a slow rank is only slow.
/// Time counts only while this process runs, so that a suspended machine loses none.
/// Behind are, by the first of these that applies: ranks without a sign of life; living ranks that do not wait for
/// messages of others, of these the ones in the earliest step and section; else, if all wait, the ones in the earliest
/// step, section and all-reduce. If all wait at the same place, none is behind.
/// A job may stall for abort_s; three times as long if the ranks behind are alive and in a section that is naturally
/// long: start-up, saving, finishing. Evaluation is not one of them, because each of its batches is progress. A rank of
/// this host whose process is stopped for abort_s ends the job even while others continue.
class StallJudge {
 public:
  explicit StallJudge(const WatchLimits& limits) : limits_(limits) {}

  struct Verdict {
    bool stalled = false;
    bool warn = false;        ///< once per stall, when warn_s have passed
    double still_s = 0;       ///< how long no rank has made progress; for a stopped rank: how long that one has not
    double allowed_s = 0;     ///< still_s at which the job ends
    std::vector<int> behind;  ///< ranks, ascending; empty: all wait for each other
    bool silent = false;      ///< those behind give no sign of life
    int speaker = 0;          ///< the lowest rank that gives one: it reports for all
    std::vector<double> progress_s;  ///< of each rank, since its last progress
    std::vector<bool> alive;         ///< of each rank
  };
  /// `passed_s`: since the last call.
  Verdict look(const std::vector<RankState>& ranks, double passed_s);

 private:
  struct Seen {
    uint64_t progress = 0;
    uint64_t beat = 0;
    double progress_s = 0;
    double beat_s = 0;
  };
  WatchLimits limits_;
  std::vector<Seen> seen_;
  bool warned_ = false;
};

/// What rank `own` reports about a stall, and its warning. `hosts`: of every rank. `wanted`: ranks of the job, which
/// may be more than are known while MPI starts.
std::string stall_sentence(const StallJudge::Verdict& verdict, const std::vector<RankState>& ranks,
                           const std::vector<std::string>& hosts, int own, int wanted);
std::string warning_sentence(const StallJudge::Verdict& verdict, const std::vector<RankState>& ranks,
                             const std::vector<std::string>& hosts, int wanted);

}  // namespace dtrain
