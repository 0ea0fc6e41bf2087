#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "dtrain/metrics/measure.hpp"

namespace dtrain {

/// "0.9312  (95 %: 0.9012 – 0.9533, Obuchowski, 37 patients)"; `noun`: Groups::noun.
std::string measured_text(const NamedValue& one, const std::string& noun);

/// The same for programs: value, low, high, method, groups; null where it is undefined.
nlohmann::ordered_json measured_json(const Measured& measured);

}  // namespace dtrain
