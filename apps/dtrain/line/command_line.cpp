#include "line/command_line.hpp"

#include <algorithm>
#include <cstring>

#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"

namespace dtrain {

// Line breaks and tabs may lay out a value.
static bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }

ResumeFrom ResumeFrom::of(const std::string& text) {
  if (text == "auto") return {};
  if (text == "never") return {.kind = Kind::nothing, .path = ""};
  return {.kind = Kind::path, .path = text};
}

std::string ResumeFrom::text() const {
  if (kind == Kind::newest) return "auto";
  return kind == Kind::nothing ? "never" : path;
}

CommandLine read_command_line(int argc, const char* const* argv) {
  for (const char* const* word = argv; word != argv + argc; ++word)
    if (std::any_of(*word, *word + std::strlen(*word), is_control))
      throw UsageError("a word of the command line holds a control character: '" + std::string(*word) + "'");
  return CommandTable().read({argv, argv + argc});
}

}  // namespace dtrain
