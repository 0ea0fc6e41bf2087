#include "line/command_table.hpp"

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "line/completion.hpp"
#include "line/help_page.hpp"
#include "line/versions.hpp"
#include "line/word_hints.hpp"

namespace dtrain {
namespace {

bool is_yaml(const std::string& word) { return word.ends_with(".yaml") || word.ends_with(".yml"); }

// epochs = 3, epochs= 3 and epochs =3
void refuse_spaces_around_equals(const std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const bool before = words[i + 1].starts_with('=') && words[i].find('=') == std::string::npos;
    const bool after = words[i].ends_with('=') && words[i + 1].find('=') == std::string::npos && !is_yaml(words[i + 1]);
    if (!before && !after) continue;
    const bool alone = words[i + 1] == "=" && i + 2 < words.size();
    const std::string value = alone ? words[i + 2] : "";
    throw UsageError("'" + words[i] + " " + words[i + 1] + (alone ? " " + value : "") +
                     "' has spaces around '='; write it without them: " + words[i] + words[i + 1] + value);
  }
}

// The two sentences of CLI11 that do not say what to do.
std::string parse_sentence(const std::string& told, const std::string& command) {
  const std::string extra = "The following argument was not expected: ", twice = ": At Most 1 required";
  if (told.starts_with(extra)) return "'" + told.substr(extra.size()) + "' is one word too many for " + command;
  if (const size_t at = told.find(twice); at != std::string::npos)
    return told.substr(0, at) + " is given more than once; give it once";
  return told;
}

// The command that was typed: the innermost one.
const CLI::App& typed_command(const CLI::App& app) {
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) innermost = innermost->get_subcommands().front();
  return *innermost;
}

}  // namespace

// CLI11 would append what a validator accepts to the type of the value.
CLI::Validator unnamed(CLI::Validator validator) {
  validator.description("");
  return validator;
}

CLI::Validator number_within(double low, double high) {
  const auto why_not = [low, high](std::string& word) {
    double value = 0;
    if (CLI::detail::lexical_cast(word, value) && value >= low && value <= high) return std::string();
    return "'" + word + "' is not a number from " + shortest(low) + " to " + shortest(high);
  };
  return {why_not, ""};
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& field,
                        const std::vector<std::string>& words, const std::string& doc) {
  return app.add_option(name, field, doc)
      ->type_name(join(words, "|"))
      ->check(unnamed(CLI::IsMember(words)))
      ->capture_default_str();
}

CommandTable::CommandTable()
    : app_(
          "dtrain trains image networks on any number of processes: with distributed.logical_ranks set, with the same "
          "bits on 1 or 8.",
          "dtrain") {
  add_train();  // then, in the order of the help page, from the data to what is made of a network
  add_sample();
  add_init();
  add_check();
  add_eval();
  add_predict();
  add_export();
  add_report();
  add_compare();
  add_verify();
  add_sweep();
  add_simulate();
  add_bench();
  add_pack();
  add_info();
  add_completion();
  add_help();
  app_.footer(
      "dtrain help COMMAND explains a command. Every key: docs/configuration.md, which dtrain --print-schema=markdown "
      "prints.");
}

CLI::App& CommandTable::command(CLI::App& parent, const std::string& name, const std::string& does,
                                const std::string& usage, const HelpPage::Examples& examples, Filled filled) {
  CLI::App* app = parent.add_subcommand(name, does);
  app->formatter(std::make_shared<HelpPage>(usage, examples, false));
  add_common(*app);
  if (filled) filled_.emplace_back(app, std::move(filled));
  return *app;
}

void CommandTable::add_common(CLI::App& app) {
  app.get_help_ptr()->description("print this page and end")->group(kSharedOptions);
  add_choice(app, "--log-level", typed_.log_level, "print messages of this level and above")->group(kSharedOptions);
  app.add_flag("--quiet", typed_.quiet, "no messages except errors; results are still printed")->group(kSharedOptions);
  app.set_version_flag("--version", version_text(), "print the version and end")->group(kSharedOptions);
}

void CommandTable::add_config(CLI::App& app, ConfigOptions& options) {
  app.add_option("-c,--config", options.sources.files,
                 "YAML file; may be repeated, later ones win; a single FILE.yaml needs no --config")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("FILE")
      ->group(kSharedOptions);
  app.add_option("overrides", typed_.words, "a key, such as optimizer.learning_rate=0.0005; overrides the files")
      ->type_name("KEY=VALUE")
      ->group(kSharedOptions);
  app.add_flag("--print-config{full}", options.print_config,
               "print the resolved configuration, each line with where it came from, and end; =minimal: only what "
               "differs from the defaults")
      ->check(CLI::IsMember({"full", "minimal"}))
      ->type_name("[=minimal]")
      ->group(kSharedOptions);
  app.add_flag("--print-schema{json}", options.print_schema,
               "print the configuration's JSON Schema, for editors, and end; =markdown: as docs/configuration.md")
      ->check(CLI::IsMember({"json", "markdown"}))
      ->type_name("[=markdown]")
      ->group(kSharedOptions);
}

void CommandTable::add_progress(CLI::App& app) {
  add_choice(app, "--progress", typed_.progress, "auto: a bar on a terminal, elsewhere a line every 10 s");
}

void CommandTable::add_completion() {
  CLI::App& app = command(app_, "completion", "print the script that makes a shell complete commands, options and keys",
                          "bash|zsh|fish",
                          {{"source <(dtrain completion bash)", "in this shell; in every one: a line of ~/.bashrc"},
                           {"source <(dtrain completion zsh)", "in ~/.zshrc, after compinit"},
                           {"dtrain completion fish | source", "in ~/.config/fish/config.fish"}},
                          [this] {
                            if (typed_.shell.empty())
                              throw UsageError("dtrain completion needs the shell: bash, zsh or fish");
                            return PrintCommand{completion_script(app_, typed_.shell)};
                          });
  add_choice(app, "shell", typed_.shell, {"bash", "zsh", "fish"}, "the shell");
}

// Its words never reach CLI11 (read).
void CommandTable::add_help() {
  CLI::App& app = command(app_, "help", "explain a command, its options and what it writes", "[COMMAND …]",
                          {{"dtrain help check", "the same as dtrain check --help"}}, nullptr);
  app.add_option("command", typed_.words, "a command, such as check or bench step")->type_name("COMMAND");
}

// Anything before the command's name would have no effect.
void CommandTable::refuse_options_before_the_command() const {
  if (app_.get_subcommands().empty()) return;
  for (const CLI::Option* option : app_.get_options())
    if (option->count() > 0 && option->get_name() != "--log-level" && option->get_name() != "--quiet")
      throw UsageError((option->get_positional() ? option->results().front() : option->get_name()) +
                       " comes before the command; keys and options go after it, as in dtrain " +
                       app_.get_subcommands().front()->get_name() + " --config FILE");
}

// dtrain fit --help asks for the page of a command, which the whole program's would not be.
void CommandTable::refuse_page_of_no_command() const {
  if (!app_.get_subcommands().empty()) return;
  const CLI::Option* words = app_.get_option("overrides");
  for (const std::string& word : words->results())
    if (word.find('=') == std::string::npos && !is_yaml(word) && !word.starts_with('-'))
      throw UsageError(hint_for_word(word, app_));
}

ConfigOptions CommandTable::with_words(ConfigOptions options, bool needs_file) {
  std::vector<std::string>& files = options.sources.files;
  refuse_spaces_around_equals(typed_.words);
  for (const std::string& word : typed_.words) {
    if (word.find('=') != std::string::npos) {
      options.sources.overrides.push_back(word);
    } else if (is_yaml(word) && files.empty()) {
      files.push_back(word);
    } else if (is_yaml(word)) {
      throw UsageError("'" + word +
                       "' is a second configuration; give several as --config A --config B, of which the later wins");
    } else {
      throw UsageError(hint_for_word(word, typed_command(app_)));
    }
  }
  if (needs_file && files.empty() && !options.print_schema)
    throw UsageError("no configuration given: add --config FILE, which dtrain init FOLDER drafts; see dtrain --help");
  return options;
}

CommandLine CommandTable::read(const std::vector<std::string>& words) {
  typed_.all = words;
  std::vector<std::string> left = words_after_help(words, app_);
  refuse_unknown_options(app_, left);
  std::reverse(left.begin(), left.end());
  try {
    app_.parse(std::move(left));
  } catch (const CLI::CallForHelp&) {
    refuse_page_of_no_command();
    return {{}, PrintCommand{app_.help()}};
  } catch (const CLI::CallForVersion& version) {
    return {{}, PrintCommand{std::string(version.what()) + "\n"}};
  } catch (const CLI::ParseError& error) {
    const CLI::App& typed = typed_command(app_);
    std::vector<std::string> names;
    for (const CLI::App* command : typed.get_subcommands({})) names.push_back(command->get_name());
    if (typed.get_require_subcommand_min() > 0 && typed.get_subcommands().empty())
      throw UsageError(command_words(typed) + " wants to know what: " + join(names, ", ") + ", as in " +
                       command_words(typed) + " " + names.at(0));
    throw UsageError(parse_sentence(error.what(), command_words(typed)) + "; see " + command_words(typed) + " --help");
  }
  refuse_options_before_the_command();
  CommandLine line;
  line.common.log_level = typed_.quiet ? LogLevel::error : typed_.log_level;
  const CLI::App* typed = &typed_command(app_);
  for (const auto& [app, fill] : filled_)
    if (app == typed) line.command = fill();
  return line;
}

}  // namespace dtrain
