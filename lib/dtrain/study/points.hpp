#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

/// A key of the configuration and the values that it takes, as typed: "epochs", {"5", "10"}.
struct SweepAxis {
  std::string key = "";
  std::vector<std::string> values;
  bool beside = false;  ///< its values belong to those of the axis before, first to first; names show them only if the
                        ///< others occur twice
};

/// What a sweep runs over.
struct SweepPlan {
  std::vector<int64_t> ranks = {1};  ///< each above 0
  std::vector<SweepAxis> over = {};
  bool zip = false;    ///< the axes' values side by side (first with first …) instead of their product
  int64_t repeat = 1;  ///< seeds: the configuration's and those that follow it
  int64_t folds = 0;   ///< folds of cross-validation; 0 = none
  /// The first number of ranks runs with the axes' first values alone, to compare the others with (advice_plan());
  /// these are the program's own, so a value may come twice.
  bool first_alone = false;
};

/// One run of a sweep.
struct SweepPoint {
  std::string name = "";  ///< of its run folder, unique in the sweep: "ranks-2_epochs-5_fold-1_seed-3"
  int64_t ranks = 1;
  std::vector<std::string> values = {};  ///< one for each axis
  int64_t seed = 0;                      ///< 0 ≤ seed; overrides the configuration's only if the plan repeats
  int64_t fold = 0;                      ///< from 1; 0 = without folds
};

/// Reads KEY=VALUE,VALUE…: commas within brackets, braces or quotes belong to a value. Throws UsageError for text
/// without a key or with an empty value.
SweepAxis read_axis(const std::string& text);

/// Throws UsageError for axes that cannot be combined: a key twice, one that another option varies or that the sweep
/// sets itself (name, output.dir), a value twice except among those that belong to others, --zip with axes of different
/// lengths or fewer than two, ranks that repeat.
void require_sound(const SweepPlan& plan);

/// The most points of a sweep.
inline constexpr int64_t kMostPoints = 10'000;

/// Every point in the order in which they run: by the values of the axes, then ranks, folds and seeds. Depends on
/// nothing but its arguments. Throws UsageError for more than kMostPoints.
std::vector<SweepPoint> points_of(const SweepPlan& plan, int64_t first_seed);

/// What a point adds to the command line: key=value of each axis, seed and fold, which takes the place of
/// data.split.valid.
std::vector<std::string> overrides_of(const SweepPlan& plan, const SweepPoint& point);

/// "optimizer.learning_rate=0.1, epochs=5"; "" without axes.
std::string series_of(const SweepPlan& plan, const SweepPoint& point);

}  // namespace dtrain
