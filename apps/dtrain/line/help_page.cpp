#include "line/help_page.hpp"

#include <algorithm>

#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

// Breaks a text into lines of up to 100 columns. Those after the first begin with `indent` spaces; the first is already
// preceded by as many columns.
std::string wrapped(const std::string& text, int indent) {
  constexpr int kWhole = 100;
  std::string lines;
  int column = indent;
  for (const std::string& word : split_text(text, ' ')) {
    const int columns = shown_columns(word);
    const bool first = column == indent;
    const bool fits = first || column + 1 + columns <= kWhole;
    lines += first ? "" : fits ? " " : "\n" + std::string(static_cast<size_t>(indent), ' ');
    lines += word;
    column = (fits ? column + (first ? 0 : 1) : indent) + columns;
  }
  return lines;
}

// A name and its description beside it.
std::string help_row(const std::string& name, const std::string& doc) {
  constexpr int kNames = 34;
  const std::string head = "  " + name;
  const bool fits = shown_columns(head) + 1 < kNames;
  return (fits ? cell(head, kNames) : head + "\n" + std::string(kNames, ' ')) + wrapped(doc, kNames) + "\n";
}

std::string help_row(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_min() > 0;
  std::string head = join(names, ", ");
  if (takes_value) head += (head.empty() ? "" : " ") + option.get_type_name();
  const std::string standard = takes_value ? option.get_default_str() : "";
  return help_row(head, option.get_description() + (standard.empty() ? "" : " (default: " + standard + ")"));
}

std::string section(const std::string& title, const std::string& rows) {
  return rows.empty() ? "" : "\n" + title + ":\n" + rows;
}

std::string rows_of(const HelpPage::Examples& examples) {
  constexpr int kBeside = 66;
  int widest = 0;
  for (const auto& [line, what_for] : examples)
    if (const int columns = shown_columns(line); columns <= kBeside) widest = std::max(widest, columns);
  std::string rows;
  for (const auto& [line, what_for] : examples) {
    const std::string indent(static_cast<size_t>(widest + 5), ' ');
    rows += "  " + (shown_columns(line) <= kBeside ? cell(line, widest + 3) : line + "\n" + indent) + what_for + "\n";
  }
  return rows;
}

}  // namespace

HelpPage::HelpPage(std::string usage, Examples examples, bool whole)
    : usage_(std::move(usage)), examples_(std::move(examples)), whole_(whole) {}

std::string HelpPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const {
  std::string commands;
  std::string arguments;
  std::string own;
  std::string shared;
  std::vector<std::string> also;
  for (const CLI::App* command : app->get_subcommands({}))
    commands += help_row(command->get_name(), command->get_description());
  for (const CLI::Option* option : app->get_options()) {
    const bool is_shared = option->get_group() == kSharedOptions;
    if (is_shared && !whole_) {
      if (option->nonpositional()) also.push_back("--" + option->get_lnames().front());
    } else {
      (option->get_positional() ? arguments : is_shared ? shared : own) += help_row(*option);
    }
  }
  return wrapped(app->get_description(), 0) + "\n\nUsage: " + name + " " + usage_ + "\n" +
         section("Commands", commands) + section("Arguments", arguments) + section("Options", own) +
         section(kSharedOptions, shared) +
         (also.empty() ? "" : "\nAlso (see dtrain --help): " + join(also, ", ") + "\n") +
         section("Examples", rows_of(examples_)) + app->get_footer();
}

}  // namespace dtrain
