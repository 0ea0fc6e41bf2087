#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "dtrain/base/log.hpp"
#include "dtrain/base/time.hpp"

namespace dtrain {

enum class ProgressMode { automatic, bar, plain, none };

/// Where training stands, for the one line that people watch.
struct Progress {
  int64_t epoch = 0;  ///< the one that is running, from 1
  int64_t epochs = 0;
  int64_t step = 0;  ///< updates done in it
  int64_t steps = 0;
  double loss = 0;  ///< mean of this epoch so far
  double learning_rate = 0;
  double images_per_s = 0;
  double data_wait = 0;  ///< share of the time, 0…1
  double eta_s = 0;      ///< to the end of the last epoch
};

/// "epoch 3/10  step 420/875  loss 0.1523  lr 4.0e-03  1,204 images/s  data-wait 2 %  eta 00:12:40"
std::string progress_text(const Progress& progress);

/// A bar where stderr is a terminal and no launcher stands between; elsewhere one plain line every 10 s.
class ProgressLine {
 public:
  /// `launched`: started by mpirun or srun, which make every output look like a terminal or hide one.
  ProgressLine(ProgressMode mode, bool launched, const Log& log);

  void show(const Progress& progress);
  /// Of any work: `done` of `total`; `text` is asked for where a line is due, and tells the two numbers itself.
  void show(int64_t done, int64_t total, const std::function<std::string()>& text);
  /// Removes the bar, so that other lines may be printed.
  void clear();

 private:
  ProgressMode mode_;
  const Log& log_;
  Stopwatch since_line_;
  bool drawn_ = false;
};

}  // namespace dtrain
