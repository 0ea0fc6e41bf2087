// dtrain: the table of contents. What each command does is in its own file.
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "commands/commands.hpp"
#include "commands/sweep_study.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/config/overrides.hpp"
#include "dtrain/model/precision.hpp"
#include "job/agreement.hpp"
#include "job/failure.hpp"
#include "job/kept_memory.hpp"
#include "job/leave.hpp"
#include "job/named_checkpoint.hpp"
#include "job/standard_streams.hpp"
#include "line/command_line.hpp"

namespace dtrain {

static void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// Loads the configuration, or prints what was asked about it and returns none: the command is then done.
static std::optional<Config> configuration(const ConfigOptions& options, const Job& job) {
  if (options.print_schema) {
    if (job.rank() == 0) print(*options.print_schema == "markdown" ? config_markdown() : config_json_schema());
    return std::nullopt;
  }
  Config config = load_config(options.sources);
  if (job.rank() == 0)
    for (const std::string& sentence : overlooked_variables()) job.log().warning(sentence);
  if (!options.print_config) return config;
  if (job.rank() == 0) print(config_yaml(config, *options.print_config == "minimal", true));
  return std::nullopt;
}

static ConfigOptions config_options(const auto& command, const Log&) { return command.config; }

// Without a configuration, uses that of the run that saved the weights.
static ConfigOptions or_own(ConfigOptions options, const std::string& checkpoint, const Log& log) {
  ConfigSources& sources = options.sources;
  if (!sources.files.empty() || options.print_schema) return options;
  add_own_configuration(checkpoint, sources);
  log.info("configuration " + (sources.files.empty() ? "in " + sources.stored_in : sources.files.front()));
  return options;
}

static ConfigOptions config_options(const EvalCommand& command, const Log& log) {
  require_overrides_of(TrainedUse::evaluate, "dtrain eval", command.config.sources);
  return or_own(command.config, command.checkpoint, log);
}
static ConfigOptions config_options(const PredictCommand& command, const Log& log) {
  if (command.checkpoints.empty()) return command.config;  // a schema is printed
  require_overrides_of(TrainedUse::predict, "dtrain predict", command.config.sources);
  return or_own(command.config, command.checkpoints.front(), log);
}
static ConfigOptions config_options(const ExportCommand& command, const Log& log) {
  require_overrides_of(TrainedUse::predict, "dtrain export", command.config.sources);
  return or_own(command.config, command.checkpoint, log);
}

// Benchmarks of steps and sums need no configuration: without one they use generated data.
static ConfigOptions or_generated_data(ConfigOptions options) {
  std::vector<std::string>& overrides = options.sources.overrides;
  if (options.sources.files.empty()) overrides.insert(overrides.begin(), "data.format=synthetic");
  return options;
}
static ConfigOptions config_options(const BenchStepCommand& command, const Log&) {
  return or_generated_data(command.config);
}
static ConfigOptions config_options(const BenchCommCommand& command, const Log&) {
  return or_generated_data(command.config);
}

/// Runs a command and gives its exit code: one overload for each.
class Dispatch {
 public:
  explicit Dispatch(Job& job) : job_(job) {}

  int operator()(const PrintCommand& command) const {
    if (job_.rank() == 0) print(command.text);
    return exit_code::kDone;
  }

  // Commands of one process: under mpirun only rank 0 runs them.
  int operator()(const SimulateCommand& command) const {
    return alone([&] { return run_simulate(command); });
  }
  int operator()(const SampleCommand& command) const {
    return alone([&] { return run_sample(command); });
  }
  int operator()(const InitCommand& command) const {
    return alone([&] { return run_init(command, job_.log()); });
  }
  int operator()(const InfoCommand& command) const {
    return alone([&] { return run_info(command); });
  }
  int operator()(const VerifyCommand& command) const {
    return alone([&] { return run_verify(command); });
  }
  int operator()(const CompareCommand& command) const {
    return alone([&] { return run_compare(command, job_.log()); });
  }
  int operator()(const ReportCommand& command) const {
    return alone([&] { return run_report(command, job_.log()); });
  }
  int operator()(const CheckCommand& command) const { return alone_with_configuration(command, run_check); }
  int operator()(const ExportCommand& command) const { return alone_with_configuration(command, run_export); }

  // Starts its jobs itself, with mpirun.
  int operator()(const SweepCommand& command) const {
    job_.expect_all_ranks();
    if (job_.launched())
      throw UsageError("dtrain sweep starts its jobs with mpirun itself; start it without mpirun or srun");
    if (command.config.print_config || command.config.print_schema) {
      configuration(with_study_file(command).command.config, job_);
      return exit_code::kDone;
    }
    return run_sweep(command, job_.log());
  }

  // Commands of all ranks together.
  int operator()(const TrainCommand& command) const { return together(command, run_train); }
  int operator()(const EvalCommand& command) const { return together(command, run_eval); }
  int operator()(const PredictCommand& command) const { return together(command, run_predict); }
  int operator()(const PackCommand& command) const { return together(command, run_pack); }
  int operator()(const BenchStepCommand& command) const { return together(command, run_bench_step); }
  int operator()(const BenchInputCommand& command) const { return together(command, run_bench_input); }
  int operator()(const BenchCommCommand& command) const { return together(command, run_bench_comm); }

 private:
  template <typename Work>
  int alone(const Work& work) const {
    job_.expect_all_ranks();
    const int code = job_.rank() == 0 ? work() : exit_code::kDone;
    job_.wait_for_root();
    return code;
  }

  template <typename Its>
  int alone_with_configuration(const Its& command, int (*run)(const Its&, const Config&, const Log&)) const {
    return alone([&] {
      const std::optional<Config> config = configuration(config_options(command, job_.log()), job_);
      return config ? run(command, *config, job_.log()) : exit_code::kDone;
    });
  }

  template <typename Its>
  int together(const Its& command, int (*run)(const Its&, const Config&, Job&)) const {
    job_.expect_all_ranks();
    const std::optional<Config> config = configuration(config_options(command, job_.log()), job_);
    if (!config) return exit_code::kDone;
    constexpr bool packs = std::is_same_v<Its, PackCommand>;
    if (packs || std::is_same_v<Its, TrainCommand> || std::is_same_v<Its, PredictCommand>)
      install_stop_handlers();  // obeyed even before the first step
    Experiment started = config->experiment;
    if (packs) started.device = DeviceChoice::cpu;  // packing computes nothing that a GPU does
    job_.start(started);
    set_product_precision(config->experiment.precision);
    require_agreement(job_, facts_of_start(facts_of_command(command, *config), *config, job_));
    return run(command, *config, job_);
  }

  Job& job_;
};

static int run(int argc, char** argv) {
  open_standard_streams();
  keep_freed_memory();
  ignore_write_signals();
  const Launch launch = read_launch();
  Job quiet_job(launch, LogLevel::info);
  quiet_job.expect_all_ranks();
  CommandLine line;
  try {
    line = read_command_line(argc, argv);
  } catch (...) {
    return end_in_failure(std::current_exception(), quiet_job);
  }
  Job job(launch, line.common.log_level);
  try {
    const int code = std::visit(Dispatch(job), line.command);
    if (code == exit_code::kDone) flush_output();
    job.finish(code);
    return code;
  } catch (...) {
    return end_in_failure(std::current_exception(), job);
  }
}

}  // namespace dtrain

int main(int argc, char** argv) { dtrain::leave(dtrain::run(argc, argv)); }
