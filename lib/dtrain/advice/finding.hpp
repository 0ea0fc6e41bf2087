#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// Something about a job that is worth a look before it is queued. It is not an error: the job would start.
struct Finding {
  int weight = 0;        ///< its importance, 0 … 100; the constants below are the levels
  std::string name;      ///< for programs: "memory", "warmup", "mask_values" …
  std::string sentence;  ///< what was seen, where, and what to do about it
};

namespace weight {
inline constexpr int kStops = 90;  ///< the job would not finish
inline constexpr int kWrong = 70;  ///< it would learn, or measure, something other than intended
inline constexpr int kPoor = 50;   ///< it would learn little, or its figures would mean little
inline constexpr int kSmall = 30;  ///< a few samples, or some time
}  // namespace weight

/// The most important first; equal ones in the order in which they were found.
std::vector<Finding> by_weight(std::vector<Finding> findings);

/// "A, B, C and 4 more": the first three of `names`.
std::string first_names(const std::vector<std::string>& names);

}  // namespace dtrain
