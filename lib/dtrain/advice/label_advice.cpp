#include "dtrain/advice/label_advice.hpp"

#include "dtrain/base/spelling.hpp"

namespace dtrain {

std::vector<Finding> label_advice(const std::vector<std::string>& classes, const std::string& where) {
  std::vector<Finding> found;
  for (const std::string& alike : spelled_alike(classes))
    found.push_back(
        {weight::kWrong + 8, "class_spelling",
         alike + " differ only in case or spaces and count as separate classes: use one spelling in " + where});
  return found;
}

}  // namespace dtrain
