#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "dtrain/study/run_record.hpp"

namespace dtrain {

/// What a run folder says about its run, finished or not.
struct RunResult {
  bool done = false;                               ///< it has DONE
  int64_t epochs = 0;                              ///< finished ones
  std::optional<double> best = std::nullopt;       ///< of the monitor, over all epochs; undefined values do not count
  int64_t best_epoch = 0;                          ///< of best_row()
  std::optional<double> elapsed_s = std::nullopt;  ///< since the run's first start, without the time between starts
  std::optional<double> images_per_s = std::nullopt;     ///< of training, over the steady epochs: all but the first
  std::optional<double> epochs_per_hour = std::nullopt;  ///< training and validation, over the steady epochs
  std::string result_sha256 = "";                        ///< of a finished run
  std::string data_sha256 = "";                          ///< of the data set's list of samples
  std::string split_sha256 = "";                         ///< of who trains and who validates
  std::string device = "";                               ///< "cpu", or the GPU's name
  int64_t nodes = 0;                                     ///< hosts; 0 = not known
  int64_t ranks = 0;                                     ///< processes; 0 = not known
  int64_t logical_ranks = 0;                             ///< 0 = not known
};

/// What an optimum is sought of.
struct Monitor {
  std::string column = "";  ///< of epochs.csv: "valid_auroc"
  bool larger_is_better = true;
};

/// The epochs, counted from 1 as in epochs.csv, whose times count for rates: start-up and warming caches are in the
/// first.
struct SteadyEpochs {
  double first = 2;
  double last = std::numeric_limits<double>::infinity();

  bool has(double epoch) const { return first <= epoch && epoch <= last; }
};

/// The best epoch's row as training chooses it: of equal values the one with the lowest validation loss, then the
/// first. Nothing if no epoch has a value.
std::optional<size_t> best_row(const NumberTable& epochs, const Monitor& monitor);

/// What a record comes to. Epochs without a time do not count for rates.
RunResult result_of(const RunRecord& run, const Monitor& monitor, const SteadyEpochs& steady = {});

/// Of a run folder. A missing folder or file, a torn last line and a damaged run.json leave fields empty. Throws
/// DataError for an epochs.csv that no run writes, and as read_text() for a file that cannot be read.
RunResult read_result(const std::string& folder, const Monitor& monitor);

/// Why a job failed, from what it printed into `log` after its first `from` bytes: dtrain's last error line without its
/// head, else the last line that is more than a rule of dashes; "" if there is none.
std::string last_sentence(const std::string& log, int64_t from);

}  // namespace dtrain
