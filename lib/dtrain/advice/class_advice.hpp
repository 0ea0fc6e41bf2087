#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"
#include "dtrain/base/task.hpp"

namespace dtrain {

/// How many samples of each class the parts of a split have.
struct ClassFacts {
  struct Part {
    std::string name;  ///< train, valid, test
    int64_t samples = 0;
    int64_t patients = 0;            ///< groups, if the data have them; 0: they do not
    std::vector<int64_t> positives;  ///< of each class: samples (for segmentation, masks) that have it
    std::vector<int64_t> negatives;  ///< that are known not to have it; not counted for segmentation
    /// Of each class: the patients of its positives; empty, or 0 where one of them is of no known patient: unknown.
    std::vector<int64_t> positive_patients{};
  };
  Task task = Task::multilabel;
  std::vector<std::string> classes;
  std::vector<Part> parts;
  bool by_share = true;      ///< parts are shares of the data: data.split.valid, test or fold
  bool shared_valid = true;  ///< the validation part is one, of all samples or of what other parts leave
  bool by_fold = false;      ///< data.split.fold
  bool stratified = false;   ///< data.split.stratify
  bool counted = true;       ///< false: masks were not read, so `positives` means nothing
};

/// Classes that cannot be learnt or measured on a part, and parts too small for their metrics.
std::vector<Finding> class_advice(const ClassFacts& facts);

}  // namespace dtrain
