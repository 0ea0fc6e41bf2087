#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

/// The group of options that most commands have: described once, by `dtrain --help`.
inline constexpr const char* kSharedOptions = "Options of most commands";

/// A command's help page: what it does, how it is called, its own options, the names of the shared ones, and examples.
class HelpPage : public CLI::FormatterBase {
 public:
  using Examples = std::vector<std::pair<std::string, std::string>>;  ///< a line to type, and what it is for

  /// usage: what follows the command's name; whole: shared options are described too.
  HelpPage(std::string usage, Examples examples, bool whole);

  /// `name`: what is typed to reach the command, "dtrain bench step".
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  std::string usage_;
  Examples examples_;
  bool whole_;
};

}  // namespace dtrain
