#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// How a program ended, and what it printed on both of its streams.
struct ProgramEnd {
  int code = 0;  ///< as a shell has it
  std::string text = "";
};

/// The path of the first program of that name on PATH, of which only absolute folders count; "" if there is none.
std::string program_on_path(const std::string& name);

/// Runs a program to its end. `words`: its path and its arguments; `scratch`: a file that holds its output meanwhile,
/// and is gone afterwards. Throws as ChildJob.
ProgramEnd run_program(const std::vector<std::string>& words, const std::string& scratch);

/// The last line of a text that is not blank, trimmed; "" if there is none.
std::string last_line(const std::string& text);

}  // namespace dtrain
