#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"
#include "dtrain/base/task.hpp"

namespace dtrain {

/// What the parts of a split hold of each class.
struct ClassFacts {
  struct Part {
    std::string name;  ///< train, valid, test
    int64_t samples = 0;
    int64_t patients = 0;            ///< groups, where the data tell them; 0: they do not
    std::vector<int64_t> positives;  ///< of each class: samples, of segmentation masks, that show it
    std::vector<int64_t> negatives;  ///< that are known not to; not looked at for segmentation
  };
  Task task = Task::multilabel;
  std::vector<std::string> classes;
  std::vector<Part> parts;
  bool by_share = true;      ///< parts are shares of the data: data.split.valid, test or fold
  bool shared_valid = true;  ///< the validation part is one, of all or of what other parts leave
  bool by_fold = false;      ///< data.split.fold
  bool stratified = false;   ///< data.split.stratify
  bool counted = true;       ///< false: masks were not looked at, so that `positives` says nothing
};

/// Classes that a part cannot teach or judge, and parts too small for what is measured on them.
std::vector<Finding> class_advice(const ClassFacts& facts);

}  // namespace dtrain
