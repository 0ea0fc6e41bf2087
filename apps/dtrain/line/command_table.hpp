#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/text.hpp"
#include "dtrain/base/words.hpp"
#include "line/command_line.hpp"
#include "line/help_page.hpp"

namespace dtrain {

/// A validator whose name CLI11 does not append to the type of the value.
CLI::Validator unnamed(CLI::Validator validator);
/// A number from `low` to `high`: unlike CLI::Range not NaN, which no comparison refuses.
CLI::Validator number_within(double low, double high);
/// An option with a few words to choose from; help pages and completions take them from its type: a|b|c.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& field,
                        const std::vector<std::string>& words, const std::string& doc);
/// The words of an enumeration (base/words.hpp); `field` must have one of them.
template <class Enum>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Enum& field, const std::string& doc) {
  const auto take = [&field](const std::string& word) { field = value_of<Enum>(word).value(); };
  return app.add_option_function<std::string>(name, take, doc)
      ->type_name(join(words_of<Enum>(), "|"))
      ->check(unnamed(CLI::IsMember(words_of<Enum>())))
      ->default_str(name_of(field));
}

/// An option with a whole number above 0.
CLI::Option* add_count(CLI::App& app, const std::string& name, int64_t& field, const std::string& doc);
/// An option with several of them: N,N…
CLI::Option* add_counts(CLI::App& app, const std::string& name, std::vector<int64_t>& field, const std::string& doc);
/// What --json does, on every help page.
inline constexpr const char* kJson = "the last line on stdout is one JSON object";
inline constexpr const char* kNetworkFrom =
    "a run's folder for its best.safetensors, that file itself, or a checkpoint; picture size, classes and all else "
    "come "
    "from there";

/// The commands and their options, each bound to the field that it fills. This one table serves to read the command
/// line, correct misspelt words, and make help pages and completions.
class CommandTable {
 public:
  CommandTable();
  CommandTable(const CommandTable&) = delete;
  CommandTable& operator=(const CommandTable&) = delete;

  const CLI::App& app() const { return app_; }

  /// Reads the words, the program's name first. Throws UsageError.
  CommandLine read(const std::vector<std::string>& words);

 private:
  /// As typed, before it is checked.
  struct Typed {
    LogLevel log_level = LogLevel::info;
    bool quiet = false;
    ProgressMode progress = ProgressMode::automatic;
    std::vector<std::string> expand;
    std::vector<std::string> over;
    std::vector<std::string> words;  // overrides, a configuration, and words meant as a command
    std::vector<std::string> all;    // the whole command line
    std::string shell;
  };
  using Filled = std::function<Command()>;

  /// A command below `parent`; usage: what follows its name; filled: the command as it was typed.
  CLI::App& command(CLI::App& parent, const std::string& name, const std::string& does, const std::string& usage,
                    const HelpPage::Examples& examples, Filled filled);
  void add_common(CLI::App& app);
  void add_config(CLI::App& app, ConfigOptions& options);
  void add_progress(CLI::App& app);
  void add_train();
  void add_check();
  void add_eval();
  void add_predict();
  void add_what_is_predicted(CLI::App& app);
  void add_export();
  void add_pack();
  void add_sweep();
  void add_simulate();
  void add_sample();
  void add_init();
  void add_info();
  void add_verify();
  void add_compare();
  void add_report();
  void add_bench();
  void add_bench_step(CLI::App& bench);
  void add_bench_input(CLI::App& bench);
  void add_bench_comm(CLI::App& bench);
  void add_completion();
  void add_help();

  void refuse_options_before_the_command() const;
  void refuse_page_of_no_command() const;
  ConfigOptions with_words(ConfigOptions options, bool needs_file);
  ProgressMode progress() const { return typed_.quiet ? ProgressMode::none : typed_.progress; }
  PackCommand packed_as_typed(const CLI::App& app);

  CLI::App app_;
  Typed typed_;
  TrainCommand train_;
  CheckCommand check_;
  EvalCommand eval_;
  PredictCommand predict_;
  ExportCommand export_;
  PackCommand pack_;
  SweepCommand sweep_;
  SimulateCommand simulate_;
  SampleCommand sample_;
  InitCommand init_;
  InfoCommand info_;
  VerifyCommand verify_;
  CompareCommand compare_;
  ReportCommand report_;
  BenchStepCommand bench_step_;
  BenchInputCommand bench_input_;
  BenchCommCommand bench_comm_;
  std::vector<std::pair<const CLI::App*, Filled>> filled_;
};

}  // namespace dtrain
