#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain {

/// Names that are equal but for case (of ASCII letters) and spaces, no-break ones too: one text for each such set, as
/// "'CAT', 'cat'", in the order of `names`; nothing where all differ otherwise.
std::vector<std::string> spelled_alike(const std::vector<std::string>& names);

/// The one character that `text` holds beside spaces; of a single space the space; nothing where there are none or
/// several.
std::optional<char> lone_character(std::string_view text);

}  // namespace dtrain
