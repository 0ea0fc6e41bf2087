#pragma once
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// Classes whose names differ in case or spaces alone (spelled_alike()). `where`: what names them, as "the class
/// folders" or "labels.csv".
std::vector<Finding> label_advice(const std::vector<std::string>& classes, const std::string& where);

}  // namespace dtrain
