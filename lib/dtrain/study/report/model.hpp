#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/study/rate_advice.hpp"
#include "dtrain/study/run_result.hpp"
#include "dtrain/study/scaling.hpp"
#include "dtrain/study/study_file.hpp"

namespace dtrain {

/// At the head of every page, by which a later report knows that it may replace the file.
inline constexpr const char* kReportMark = "<meta name=\"generator\" content=\"dtrain report\"/>";

// What a report shows, as plain values: everything is read and computed before the first line of a page is drawn. In
// columns with a value for each epoch NaN stands for a value that cannot be had.

/// A column of epochs.csv, one value for each epoch of the run.
struct EpochColumn {
  std::string name = "";  ///< as in epochs.csv: "valid_auroc"
  std::vector<double> values = {};
};

/// A part of an epoch's time; the parts of a run add up to epoch_seconds + valid_seconds.
struct TimePart {
  std::string name =
      "";  ///< for people: "compute", "data wait", "all-reduce", "imbalance", "update", "other", "validation"
  std::vector<double> seconds = {};  ///< one for each epoch, ≥ 0; NaN: not known
};

/// A figure with its 95 % interval.
struct ReportedValue {
  std::string name = "";  ///< of the metric, or of the class
  std::optional<double> value = std::nullopt;
  std::optional<double> low = std::nullopt;  ///< nothing without an interval
  std::optional<double> high = std::nullopt;
};

/// How often a class is there.
struct ClassCount {
  std::string name = "";
  int64_t positives = 0;
  int64_t known = 0;  ///< samples whose label is known
};

/// What one rank spent on a mean epoch, from ranks.csv: steady epochs (all but the first), or the first if it is alone.
struct RankTime {
  int64_t rank = 0;
  std::string host = "";  ///< "" = not known
  double compute_s = 0;
  double data_wait_s = 0;
  double allreduce_s = 0;
  double step_ms_median = 0;                  ///< median over the epochs; NaN: not known
  double step_ms_p95 = 0;                     ///< largest over the epochs; NaN: not known
  double to_median = 1;                       ///< compute_s + data_wait_s ÷ the median over the ranks
  bool slow = false;                          ///< above the median by more than a tenth, in most epochs
  std::optional<double> memory_peak_mb = {};  ///< resident, largest so far
};

/// A part of a mean steady epoch (all but the first).
struct MeanTime {
  std::string name = "";  ///< as TimePart
  double seconds = 0;
};

/// One run: a folder of dtrain's, or a table of another tool.
struct ReportedRun {
  std::string name = "";    ///< of the configuration, of the study's point, or the file's
  std::string folder = "";  ///< or the table's path, as it was typed
  bool other_tool = false;
  std::string state = "";  ///< "finished", "not finished", or how a study has it: "failed (79)", "waiting" …
  bool finished = false;
  std::string series = "";  ///< of which it is a part
  int64_t ranks = 1;        ///< N: what scaling counts; processes, or logical ranks where those differ between the runs
  int64_t logical_ranks = 0;  ///< V; 0 = not known
  int64_t processes = 0;      ///< 0 = not known
  int64_t nodes = 0;          ///< hosts; 0 = not known
  bool timed = true;          ///< its times say something about N ranks: processes = N
  std::string device = "";    ///< "cpu", or the GPU's name
  std::optional<int64_t> seed = std::nullopt;
  int64_t fold = 0;  ///< from 1; 0 = without folds

  std::vector<double> epoch = {};  ///< numbers of the epochs that were read, ascending; all columns are as long
  std::vector<double> elapsed_s = {};
  std::vector<double> train_loss = {};
  std::vector<double> valid_loss = {};
  std::vector<double> learning_rate = {};
  std::vector<double> images_per_s = {};
  std::vector<EpochColumn> metrics = {};  ///< train_… and valid_… that are no losses or seconds, in the file's order
  std::vector<TimePart> times = {};  ///< in the order in which they are stacked; parts without any value are left out

  std::vector<MeanTime> mean_times = {};  ///< their means over the steady epochs; empty without such

  Monitor monitor = {};    ///< .column "" = not known
  RunResult result = {};   ///< best and best_epoch of the monitor, rates, time
  std::string split = "";  ///< of `values`, `per_class` and `counts`: "valid", "test"; "" = not evaluated
  std::vector<ReportedValue> values = {};     ///< of the whole split, as dtrain eval gave them; empty if not evaluated
  std::string per_class_of = "";              ///< metric of `per_class`: "auroc"; "" = there is none by class
  std::vector<ReportedValue> per_class = {};  ///< intervals only if evaluated, else of the best epoch
  std::vector<ClassCount> counts = {};        ///< of the evaluated split; empty for masks, and if not evaluated
  std::vector<RankTime> rank_times = {};      ///< slowest first; empty without ranks.csv
  std::vector<std::pair<std::string, std::string>> manifest = {};  ///< what run.json says, for people
  std::vector<std::string> sentences = {};                         ///< what stands out, about this run alone
  std::vector<std::string> notes = {};                             ///< what could not be read, and what was left out
};

/// Over the runs of a point: a value of a curve, and its band.
struct BandPoint {
  double epoch = 0;
  double elapsed_s = 0;  ///< mean of the runs; NaN: not known, or not timed
  double mean = 0;
  double least = 0;
  double most = 0;
  int64_t runs = 0;
};

/// One number of ranks of a series.
struct SeriesPoint {
  ScalingRow figures = {};        ///< the row of scaling.csv: means, speed-up, efficiency, metric with its spread
  std::vector<size_t> runs = {};  ///< in Report::runs, those of which `figures` are: finished ones
  int64_t logical_ranks = 0;      ///< V; 0 = not known, or not the same in all runs
  Spread epochs_per_hour = {};    ///< over the runs
  Spread images_per_s = {};
  Spread time_to_train_s = {};
  std::optional<double> speedup_of_total = std::nullopt;  ///< time to train at 1 ÷ at N: first epoch and start included
  std::optional<double> serial_fraction = std::nullopt;  ///< Karp–Flatt; nothing at N = 1, may be < 0 above the ideal
  bool above_ideal = false;                              ///< speed-up > N
  std::vector<MeanTime> times = {};                      ///< where a mean steady epoch went, mean over the runs
  std::vector<BandPoint> train_loss = {};
  std::vector<BandPoint> valid_loss = {};
  std::vector<BandPoint> metric = {};  ///< the monitor
};

struct ReportedSeries {
  std::string name = "";
  Monitor monitor = {};                    ///< .column "" = the runs have none in common
  std::vector<SeriesPoint> points = {};    ///< ascending by ranks
  std::vector<int64_t> node_borders = {};  ///< numbers of ranks that are the first on more nodes than the one before
  bool has_one_rank = false;               ///< else there is no speed-up, efficiency and serial fraction
  std::optional<int64_t> pays_up_to = std::nullopt;  ///< more ranks than this do not pay; nothing: all did, or unknown
  std::vector<std::string> sentences = {};
};

/// Several runs beside each other.
struct ReportedStudy {
  std::string name = "";
  std::vector<ReportedSeries> series = {};
  std::vector<std::string> sentences = {};  ///< about all series together
  std::vector<std::string> notes = {};      ///< what is missing: points that failed or are still to run …
  std::optional<RateAdvice> advice = {};    ///< of dtrain sweep --advise
  StudyWords words = {};                    ///< of its study file
};

/// One run, or several beside each other.
struct Report {
  std::string title = "";
  std::vector<ReportedRun> runs = {};
  std::optional<ReportedStudy> study = std::nullopt;  ///< nothing: a report of the one run
};

}  // namespace dtrain
