#pragma once
#include <string>

namespace dtrain {

/// What a command leaves behind: the end of its help page.
struct CommandEnd {
  const char* command;  ///< the words that are typed: "dtrain bench step"
  const char* writes;   ///< files, and what is printed; "" if it has commands of its own
  const char* codes;    ///< the exit codes that a script should tell apart
};

/// Every command has a row; an internal error else.
const CommandEnd& end_of(const std::string& command);

}  // namespace dtrain
