#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// Names that are equal except for case (of ASCII letters) and spaces, no-break ones included: one text for each such
/// set, like "'CAT', 'cat'", in the order of `names`; empty if there are none.
std::vector<std::string> spelled_alike(const std::vector<std::string>& names);

/// The only character of `text` besides spaces; for a single space the space; nothing if there are none or several.
std::optional<char> lone_character(std::string_view text);

}  // namespace dtrain
