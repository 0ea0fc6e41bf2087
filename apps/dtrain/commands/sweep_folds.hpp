#pragma once
#include <string>
#include <vector>

#include "commands/sweep_jobs.hpp"

namespace dtrain {

/// What the folds of a cross-validation say together: each sample predicted by the network that was not trained on it.
///
/// Every finished point with a fold is evaluated on its validation part by dtrain eval, into evaluations/POINT; what an
/// earlier start has evaluated is kept. Where all folds of one configuration, number of ranks and seed are finished,
/// their predictions are pooled into predictions_pooled.csv and metrics_pooled.json, or _pooled_NAME where there are
/// several such groups.
class SweepFolds {
 public:
  SweepFolds(SweepJobs::Parts parts, Launcher launcher) : p_(parts), launcher_(std::move(launcher)) {}

  /// False if a signal ended it. Throws Error with the code and the last sentence of an evaluation that failed.
  bool evaluate() const;
  /// Writes the files; gives lines for people, none where no group is complete. Throws as pool_folds().
  std::vector<std::string> pool() const;

 private:
  struct Group {
    std::string name;  ///< of its points, without the fold
    std::vector<const JudgedPoint*> folds;
  };
  std::vector<Group> groups() const;
  std::vector<std::string> pool_group(const Group& group, const std::string& ending) const;
  std::string folder_of(const JudgedPoint& point) const;
  bool run(const JudgedPoint& point) const;

  SweepJobs::Parts p_;
  Launcher launcher_;
};

}  // namespace dtrain
