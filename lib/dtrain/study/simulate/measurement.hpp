#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/simulate/scaling_prediction.hpp"

namespace dtrain {

/// What a file or a run folder tells a simulation.
struct Measurement {
  struct Steps {
    Workload workload;  ///< without the loader's limit
    int64_t ranks = 1;
    int64_t logical_ranks = 1;
    double step_s = 0;  ///< mean, of all ranks together
    bool spread_measured = true;
  };
  struct Loader {
    double images_per_s = 0;  ///< of a rank
    double threads = 1;
    double file_bytes_per_image = 0;
  };
  std::string name;                ///< as it was typed
  std::optional<Steps> steps;      ///< a run, dtrain bench step
  TrainingLength length;           ///< a run
  std::optional<Loader> loader;    ///< a run that waited for data, dtrain bench input
  std::optional<Link> inside;      ///< dtrain bench comm on one host, by the canonical sum
  std::vector<std::string> notes;  ///< sentences on what was left out
};

/// A run folder, from the epochs after the first, which also chooses layouts and fills caches: compute, update, sums
/// and waiting from epochs.csv; the spread from the steps in metrics.jsonl, or, on several ranks, from the time that
/// they waited for each other; the bytes of gradients from best.safetensors (all its floats: parameters, and the
/// buffers that are averaged with them); a loader's rate where a rank waited for data in 2 % of the time or more.
/// Throws as read_run(), and DataError for a run that is too short, or whose files an older version wrote.
Measurement measured_run(const std::string& folder);

/// What dtrain bench step, input or comm has written with --json: the last line of `text`. Throws DataError, `name`
/// first, for anything else.
Measurement measured_bench(const std::string& text, const std::string& name);

/// A folder or a file, as above. Throws MissingError if it is not there.
Measurement read_measurement(const std::string& path);

/// Several as one: of steps the mean, and a spread that holds the spread between measurements too (two benches at the
/// same time, each on its own core, show what sharing memory costs); of everything else what the last one has. Throws
/// DataError, both names in it, if they measured different work, or none measured steps.
Measurement joined(const std::vector<Measurement>& all);

/// Where nobody describes a cluster: one machine with a core for every rank, and sums through its memory as dtrain
/// bench comm has measured them, else at 10 GB/s.
Cluster one_machine(const Measurement& measured);

}  // namespace dtrain
