#pragma once
#include <string>

namespace dtrain {

/// `text` as one word of a POSIX shell's command line, in single quotes unless it needs none.
std::string shell_word(const std::string& text);

}  // namespace dtrain
