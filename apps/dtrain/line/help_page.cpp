#include "line/help_page.hpp"

#include <unistd.h>

#include <algorithm>

#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "line/command_end.hpp"

namespace dtrain {
namespace {

constexpr int kUsual = 80;  // columns, where there is no terminal

int page_columns() {
  constexpr int kLeast = 60;
  constexpr int kMost = 100;
  const int terminal = terminal_columns(STDOUT_FILENO);
  return terminal == 0 ? kUsual : std::clamp(terminal, kLeast, kMost);
}

// Sets words into lines of up to `whole` columns. Those after the first begin with `indent` spaces; the first is
// already preceded by as many columns. `broken`: what a line ends with that goes on in the next.
std::string set_words(const std::vector<std::string>& words, int indent, int whole, const std::string& broken) {
  std::string lines;
  int column = indent;
  for (size_t i = 0; i < words.size(); ++i) {
    const int columns = shown_columns(words[i]);
    const int after = i + 1 < words.size() ? shown_columns(broken) : 0;
    const bool fits = i == 0 || column + 1 + columns + after <= whole;
    lines += i == 0 ? "" : fits ? " " : broken + "\n" + std::string(static_cast<size_t>(indent), ' ');
    lines += words[i];
    column = (fits ? column + (i == 0 ? 0 : 1) : indent) + columns;
  }
  return lines;
}

std::string wrapped(const std::string& text, int indent, int whole) {
  return set_words(split_text(text, ' '), indent, whole, "");
}

// A line to type: an option stays beside its value.
std::string wrapped_command(const std::string& line, int indent, int whole, const std::string& broken) {
  std::vector<std::string> units;
  for (const std::string& word : split_text(line, ' ')) {
    const bool after_option = !units.empty() && (units.back().starts_with('-') || units.back().starts_with("[-"));
    const bool belongs = word.starts_with("…") || (after_option && !word.starts_with('-') && !word.starts_with('['));
    if (belongs)
      units.back() += " " + word;
    else
      units.push_back(word);
  }
  return set_words(units, indent, whole, broken);
}

std::string usage_text(const std::string& name, const std::string& usage, int whole) {
  constexpr int kIndent = 9;
  std::vector<std::string> lines;
  for (const std::string& line : split_text(name + " " + usage, '\n')) {
    const std::string form = line.substr(line.find_first_not_of(' '));
    lines.push_back((lines.empty() ? "Usage: " : "       ") + wrapped_command(form, kIndent, whole, ""));
  }
  return join(lines, "\n") + "\n";
}

// A name and its description beside it.
std::string help_row(const std::string& name, const std::string& doc, int whole) {
  constexpr int kNames = 26;
  const std::string head = "  " + name;
  const bool fits = shown_columns(head) + 1 < kNames;
  return (fits ? cell(head, kNames) : head + "\n" + std::string(kNames, ' ')) + wrapped(doc, kNames, whole) + "\n";
}

std::string help_row(const CLI::Option& option, int whole) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool takes_value = option.get_items_expected_min() > 0;
  std::string head = join(names, ", ");
  std::string type = option.get_type_name();           // of a flag: [=WORD]
  type.erase(std::min(type.find(":{"), type.size()));  // what CLI11 adds for a check of the word
  head += (takes_value && !head.empty() ? " " : "") + type;
  const std::string standard = takes_value ? option.get_default_str() : "";
  return help_row(head, option.get_description() + (standard.empty() ? "" : " (default: " + standard + ")"), whole);
}

std::string section(const std::string& title, const std::string& rows) {
  return rows.empty() ? "" : "\n" + title + ":\n" + rows;
}

// What each line is for stands beside it, or, if there is no room for that, below.
std::string rows_of(const HelpPage::Examples& examples, int whole) {
  int lines = 0;
  int texts = 0;
  for (const auto& [line, what_for] : examples) {
    lines = std::max(lines, shown_columns(line));
    texts = std::max(texts, shown_columns(what_for));
  }
  std::string rows;
  for (const auto& [line, what_for] : examples) {
    if (2 + lines + 3 + texts <= whole)
      rows += "  " + cell(line, lines + 3) + what_for + "\n";
    else
      rows += "  " + wrapped_command(line, 4, whole, " \\") + "\n      " + wrapped(what_for, 6, whole) + "\n";
  }
  return rows;
}

std::string paragraph(const std::string& title, const std::string& text, int whole) {
  return text.empty() ? "" : "\n" + title + ":\n  " + wrapped(text, 2, whole) + "\n";
}

}  // namespace

HelpPage::HelpPage(std::string usage, Examples examples, bool whole)
    : usage_(std::move(usage)), examples_(std::move(examples)), whole_(whole) {}

std::string HelpPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const {
  const int columns = page_columns();
  std::string commands;
  std::string arguments;
  std::string own;
  std::string shared;
  std::vector<std::string> also;
  for (const CLI::App* command : app->get_subcommands({}))
    commands += help_row(command->get_name(), command->get_description(), columns);
  for (const CLI::Option* option : app->get_options()) {
    const bool is_shared = option->get_group() == kSharedOptions;
    if (is_shared && !whole_) {
      if (option->nonpositional())
        also.push_back((option->get_snames().empty() ? "" : "-" + option->get_snames().front() + " ") + "--" +
                       option->get_lnames().front());
    } else {
      (option->get_positional() ? arguments : is_shared ? shared : own) += help_row(*option, columns);
    }
  }
  const CommandEnd& end = end_of(name);
  return wrapped(app->get_description(), 0, columns) + "\n\n" + usage_text(name, usage_, columns) +
         section("Commands", commands) + section("Arguments", arguments) +
         section(whole_ ? "Options of training" : "Options", own) + section(kSharedOptions, shared) +
         paragraph("Also, as dtrain --help describes them", join(also, ", "), columns) +
         paragraph("Writes", end.writes, columns) + paragraph("Exit codes", end.codes, columns) +
         section("Examples", rows_of(examples_, columns)) +
         (app->get_footer().empty() ? "" : "\n" + wrapped(app->get_footer(), 0, columns) + "\n");
}

}  // namespace dtrain
