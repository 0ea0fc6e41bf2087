#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commands/predict_writer.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/runlog/progress.hpp"
#include "job/job.hpp"
#include "line/command_line.hpp"

namespace dtrain {

// What dtrain predict says to people.

/// Lines about how far it is.
class PredictTelling {
 public:
  /// `before`: of `all` pictures so many were done by earlier starts.
  PredictTelling(const PredictCommand& command, Job& job, int64_t before, int64_t all);

  /// So many pictures are done, of all ranks as far as this one knows.
  void show(int64_t done);

 private:
  ProgressLine line_;
  int64_t before_;
  int64_t all_;
  Stopwatch watch_;
};

/// What is out of the ordinary in how every picture is seen and judged: several networks, mirrored views, tiles, what
/// eval has fitted; "" if nothing is.
std::string how_it_is_seen(const PredictCommand& command, const PredictEnsemble& ensemble);

/// "out/predictions.csv has a row for each, with …". `folder`: the output.
std::string what_was_written(const Predicted& predicted, const std::string& folder);

/// What speaks against the pixels of the pictures of these paths (ListedPictures::Found::off_range), at least one.
std::string off_range_sentence(const std::vector<std::string>& paths, const PredictEnsemble& ensemble);

}  // namespace dtrain
