#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// Messages about words that the command line does not know: usually what was meant.

namespace dtrain {

/// What is typed to reach a command: "dtrain bench step".
std::string command_words(const CLI::App& app);

/// The words after the program's name; `help COMMAND …` becomes `COMMAND … --help`. Throws UsageError if COMMAND is
/// none.
std::vector<std::string> words_after_help(const std::vector<std::string>& words, const CLI::App& app);

/// Throws UsageError at the first word that begins with '-' and is not an option of its command, at an option in the
/// place of another's value, and at a word where only a command is allowed. CLI11's own messages suggest nothing.
void refuse_unknown_options(const CLI::App& app, const std::vector<std::string>& words);

/// For a word that is neither a command, a configuration nor key=value.
std::string hint_for_word(const std::string& word, const CLI::App& app, bool only_commands = false);

}  // namespace dtrain
