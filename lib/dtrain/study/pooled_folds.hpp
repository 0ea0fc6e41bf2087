#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/study/predicted_part.hpp"

namespace dtrain {

/// A fold of a cross-validation, evaluated on its validation part.
struct EvaluatedFold {
  int64_t fold = 1;
  std::string folder = "";  ///< with the predictions_valid.csv of its best weights
};

/// Every sample of the folds with the prediction of a network that was not trained on it.
struct PooledFolds {
  std::vector<std::string> classes;
  Predictions predictions;  ///< in the order of the folds; masks and classes at threshold ½, whatever was fitted
  Groups groups;            ///< samples of one patient are one group, also if they are in several folds
  std::string csv;          ///< the folds' tables below each other, with the column fold before theirs
  bool fitted = false;      ///< a fold's probabilities were divided by a temperature, or it has thresholds of its own
};

/// Reads the folds of one configuration and seed, at least one. Numbers of patients must mean the same in all of them,
/// as dtrain eval writes them for parts of one data set. Throws as read_predictions(); DataError if two folds have
/// different columns or classes, or share a sample.
PooledFolds pool_folds(const std::vector<EvaluatedFold>& folds, Task task);

}  // namespace dtrain
