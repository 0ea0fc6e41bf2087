#pragma once
#include <string>

namespace dtrain::test {

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace dtrain::test
