#pragma once
#include <string>
#include <vector>

#include "line/command_line.hpp"

namespace dtrain::test {

/// Reads these words as if they stood behind "dtrain".
inline CommandLine typed(const std::vector<std::string>& words) {
  std::vector<const char*> line = {"dtrain"};
  for (const std::string& word : words) line.push_back(word.c_str());
  return read_command_line(static_cast<int>(line.size()), line.data());
}

}  // namespace dtrain::test
