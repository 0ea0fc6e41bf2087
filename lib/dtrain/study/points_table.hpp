#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/base/words.hpp"
#include "dtrain/study/points.hpp"
#include "dtrain/study/run_result.hpp"

namespace dtrain {

enum class PointState {
  waiting,
  queued,  ///< in the queue of a batch system
  running,
  stopped,  ///< by a signal, with a checkpoint: it goes on
  done,
  failed,
};
template <>
inline constexpr auto kWordsOf<PointState> = std::to_array<Word<PointState>>({{PointState::waiting, "waiting"},
                                                                              {PointState::queued, "queued"},
                                                                              {PointState::running, "running"},
                                                                              {PointState::stopped, "stopped"},
                                                                              {PointState::done, "done"},
                                                                              {PointState::failed, "failed"}});

/// A point of a sweep, and how far it is.
struct SweepRow {
  SweepPoint point = {};
  std::string run_dir = "";
  int64_t processes = 1;  ///< as many as its ranks, unless there are fewer cores
  int64_t jobs = 1;       ///< how many points ran side by side, itself included, the most over its starts
  Monitor monitor = {};
  PointState state = PointState::waiting;
  int exit_code = 0;         ///< of the job that failed
  std::string message = "";  ///< why it failed, or waits in a queue
  RunResult result = {};

  /// Whether its times say anything about its number of ranks.
  bool timed() const { return processes == point.ranks && jobs == 1; }
};

/// points.csv: point, ranks, seed, fold, a column for each axis, state, exit_code, run_dir, then processes,
/// jobs, epochs_done, metric, best, best_epoch, images_per_s, epochs_per_hour, elapsed_s, result_sha256, series
/// (series_of(); empty without axes), message. What is unknown is empty, as are the rates of a point that had fewer
/// processes than ranks, or others beside it.
std::string points_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows);

/// What an earlier points.csv says of a point, which its run folder does not.
struct EarlierPoint {
  bool failed = false;
  int exit_code = 0;  ///< of a failed one
  std::string message = "";
  int64_t jobs = 1;
};
/// By name. Throws as CsvTable::read().
std::map<std::string, EarlierPoint> earlier_points(const std::string& path);

}  // namespace dtrain
