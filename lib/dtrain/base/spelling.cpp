#include "dtrain/base/spelling.hpp"

#include <algorithm>
#include <map>

#include "dtrain/base/text.hpp"

namespace dtrain {

static std::string without_case_and_spaces(const std::string& name) {
  constexpr std::string_view kNoBreakSpace = "\xC2\xA0";
  std::string left;
  for (const char letter : lower_case(name))
    if (letter != ' ' && letter != '\t') left += letter;
  for (size_t at = left.find(kNoBreakSpace); at != std::string::npos; at = left.find(kNoBreakSpace, at))
    left.erase(at, kNoBreakSpace.size());
  return left;
}

std::vector<std::string> spelled_alike(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::string>> spellings;
  for (const std::string& name : names) {
    std::vector<std::string>& known = spellings[without_case_and_spaces(name)];
    const std::string quoted = "'" + name + "'";
    if (std::find(known.begin(), known.end(), quoted) == known.end()) known.push_back(quoted);
  }
  std::vector<std::string> alike;
  for (const std::string& name : names) {
    const std::vector<std::string>& known = spellings[without_case_and_spaces(name)];
    if (known.size() > 1 && known.front() == "'" + name + "'") alike.push_back(join(known, ", "));
  }
  return alike;
}

std::optional<char> lone_character(std::string_view text) {
  if (text.size() == 1) return text[0];
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos || first != text.find_last_not_of(' ')) return std::nullopt;
  return text[first];
}

}  // namespace dtrain
