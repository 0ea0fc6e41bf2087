#include "dtrain/data/formats/empty_values.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

static bool stands_for_nothing(const std::string& text) {
  if (text.size() < 3 || text.size() > 4) return false;
  const std::string word = lower_case(text);
  return word == "nan" || word == "<na>";
}

void refuse_empty_values(const Dataset& dataset, const std::string& where) {
  const auto place = std::find_if(dataset.classes.begin(), dataset.classes.end(), stands_for_nothing);
  const std::string told = "', which programs write for an empty field";
  std::vector<std::string> paths;
  if (place != dataset.classes.end()) {
    const auto number = static_cast<size_t>(place - dataset.classes.begin());
    for (const Sample& sample : dataset.samples)
      if (sample.labels.empty() ? sample.class_index == static_cast<int64_t>(number) : sample.labels[number] > 0.5F)
        paths.push_back(sample.path);
    throw DataError(with_list(where + " has a class called '" + *place + told +
                                  "; write the class of these samples, take them out, or give the class another name:",
                              paths, 5));
  }
  std::string group;
  for (const Sample& sample : dataset.samples) {
    if (!stands_for_nothing(sample.group)) continue;
    group = sample.group;
    paths.push_back(sample.path);
  }
  if (!paths.empty())
    throw DataError(with_list(where + " has " + count_of(std::ssize(paths), "sample") + " of the patient or group '" +
                                  group + told +
                                  " and would make them one; leave it empty, then each counts by itself:",
                              paths, 5));
}

}  // namespace dtrain
