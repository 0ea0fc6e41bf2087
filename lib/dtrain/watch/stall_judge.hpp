#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/watch/options.hpp"
#include "dtrain/watch/rank_table.hpp"

namespace dtrain {

/// Decides from the states of all ranks whether the job stands still, and who is behind. No clock, no thread: the
/// caller tells how much time has passed, so that all of it can be tried with made-up states.
///
/// The rule. A job stands still while no rank makes progress: as long as any of them does, a slow rank is slow and no
/// more. Time counts only while this process runs, so that a suspended machine has lost none.
///
/// Behind are, first that holds: ranks without a sign of life; living ranks that do not wait for messages of others,
/// of these the ones in the earliest step and section; else, where all wait, the ones in the earliest step, section
/// and all-reduce. Where all wait at the same place nobody is behind.
///
/// A job may stand still for abort_s; three times as long where the ranks behind live and are in a section that is
/// long by nature: start-up, saving, finishing. Evaluation is none of them, because each of its batches is progress. A
/// rank of this host whose process is stopped for abort_s ends the job even while others go on.
class StallJudge {
 public:
  explicit StallJudge(const WatchLimits& limits) : limits_(limits) {}

  struct Verdict {
    bool stalled = false;
    bool warn = false;               ///< once per stall, when warn_s have passed
    double still_s = 0;              ///< nobody has made progress for so long; in case of a stopped rank: it has not
    double allowed_s = 0;            ///< still_s that end the job
    std::vector<int> behind;         ///< ranks, ascending; empty: all wait for each other
    bool silent = false;             ///< those behind give no sign of life
    int speaker = 0;                 ///< the lowest rank that gives one: it speaks for all
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

/// What rank `own` tells of a stall, and what it warns of. `hosts`: of every rank. `wanted`: ranks of the job, which
/// may be more than are known while MPI starts.
std::string stall_sentence(const StallJudge::Verdict& verdict, const std::vector<RankState>& ranks,
                           const std::vector<std::string>& hosts, int own, int wanted);
std::string warning_sentence(const StallJudge::Verdict& verdict, const std::vector<RankState>& ranks,
                             const std::vector<std::string>& hosts, int wanted);

}  // namespace dtrain
