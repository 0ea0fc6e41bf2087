#include "dtrain/advice/label_advice.hpp"

#include "dtrain/base/spelling.hpp"

namespace dtrain {

std::vector<Finding> label_advice(const std::vector<std::string>& classes, const std::string& where) {
  std::vector<Finding> found;
  for (const std::string& alike : spelled_alike(classes))
    found.push_back({weight::kWrong + 8, "class_spelling",
                     alike +
                         " differ in case or spaces alone and count as classes of their own: bring them to one "
                         "spelling in " +
                         where});
  return found;
}

}  // namespace dtrain
