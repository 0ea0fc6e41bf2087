#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace dtrain {

/// The script that makes `shell` (bash, zsh or fish) complete commands, options, their values (words or files),
/// keys, and the words that a key takes: all from the table of commands and the schema of the configuration.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace dtrain
