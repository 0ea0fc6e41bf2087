#pragma once
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"

namespace dtrain {

/// Classes whose names differ only in case or spaces (spelled_alike()). `where`: what names them, such as "the class
/// folders" or "labels.csv".
std::vector<Finding> label_advice(const std::vector<std::string>& classes, const std::string& where);

}  // namespace dtrain
