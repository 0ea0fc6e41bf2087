#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/log.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/base/words.hpp"

namespace dtrain {

enum class ProgressMode { automatic, bar, plain, none };

template <>
inline constexpr auto kWordsOf<ProgressMode> = std::to_array<Word<ProgressMode>>({{ProgressMode::automatic, "auto"},
                                                                                  {ProgressMode::bar, "bar"},
                                                                                  {ProgressMode::plain, "plain"},
                                                                                  {ProgressMode::none, "none"}});

/// A field of the progress line. If a line is too long for its terminal, the fields of least weight are dropped first,
/// of equal ones the last.
struct ProgressField {
  std::string text;
  int weight = 0;
};
using ProgressFields = std::vector<ProgressField>;

/// How far training is.
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
ProgressFields progress_fields(const Progress& progress);

/// All fields: "epoch 3/10  step 420/875  loss 0.1523  lr 4.0e-03  1,204 images/s  data-wait 2 %  eta 00:12:40"
std::string plain_line(const ProgressFields& fields);

/// A bar of 10 cells, 20 from 120 columns on, `share` (0…1) of them full, and as many fields as a terminal of `columns`
/// has room for; its last column stays free, because some terminals begin a new line once it is written. A single field
/// that is too long is cut.
std::string bar_line(double share, ProgressFields fields, int columns);

/// A bar if stderr is a terminal and there is no launcher in between; elsewhere one plain line every 10 s.
///
/// The bar is one line, as wide as the terminal is at that moment. The cursor waits at its beginning: if the window
/// becomes narrower and the terminal breaks the line, all of it is after the cursor, and the next update clears it.
/// Log, dtrain's last line and a second Ctrl-C remove the bar by themselves (base/terminal.hpp), and so does this
/// object's destructor; printing on stdout meanwhile does not.
class ProgressLine {
 public:
  /// `launched`: started by mpirun or srun, which make every output look like a terminal or hide one.
  ProgressLine(ProgressMode mode, bool launched, const Log& log);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const Progress& progress);
  /// Of any work: `done` of `total`; `fields` is called when a line is due, and includes the two numbers itself.
  void show(int64_t done, int64_t total, const std::function<ProgressFields()>& fields);

 private:
  ProgressMode mode_;
  const Log& log_;
  Stopwatch since_line_;
};

}  // namespace dtrain
