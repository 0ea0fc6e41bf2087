// dtrain: the table of contents. What each command does is in its own file.
#include <malloc.h>

#include <cstdio>
#include <limits>

#include "agreement.hpp"
#include "command_line.hpp"
#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/model/precision.hpp"
#include "failure.hpp"
#include "named_checkpoint.hpp"
#include "standard_streams.hpp"

namespace dtrain {

static void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// Loads the configuration, or prints what was asked about it; nothing: the command is done.
static std::optional<Config> configuration(const ConfigOptions& options, const Job& job) {
  if (options.print_schema) {
    if (job.rank() == 0) print(*options.print_schema == "markdown" ? config_markdown() : config_json_schema());
    return std::nullopt;
  }
  Config config = load_config(options.sources);
  if (!options.print_config) return config;
  if (job.rank() == 0) print(config_yaml(config, *options.print_config == "minimal", true));
  return std::nullopt;
}

// Without a configuration that of the run whose weights are judged.
static ConfigOptions options_of_eval(const EvalCommand& eval, const Log& log) {
  ConfigOptions options = eval.config;
  ConfigSources& sources = options.sources;
  if (!sources.files.empty() || options.print_schema) return options;
  add_own_configuration(eval.checkpoint, sources);
  log.info("configuration " + (sources.files.empty() ? "in " + sources.stored_in : sources.files.front()));
  return options;
}

// Benchmarks of steps and sums need no configuration: without one they take generated data.
static ConfigOptions config_options(const CommandLine& line, const Log& log) {
  if (line.train) return line.train->config;
  if (line.check) return line.check->config;
  if (line.eval) return options_of_eval(*line.eval, log);
  if (line.pack) return line.pack->config;
  if (line.bench_input) return line.bench_input->config;
  ConfigOptions options = line.bench_step ? line.bench_step->config : line.bench_comm->config;
  if (options.sources.files.empty()) {
    std::vector<std::string> overrides = {"data.format=synthetic"};
    for (const std::string& typed : options.sources.overrides) overrides.push_back(typed);
    options.sources.overrides = overrides;
  }
  return options;
}

static int dispatch(const CommandLine& line, Job& job) {
  if (!line.text.empty()) {
    if (job.rank() == 0) print(line.text);
    return exit_code::kDone;
  }
  const bool alone =
      line.sample || line.info || line.check || line.verify;  // commands of one process: under mpirun rank 0 does them
  if (alone && job.rank() != 0) return exit_code::kDone;
  if (!alone) job.expect_all_ranks();
  if (line.sample) return run_sample(*line.sample);
  if (line.info) return run_info(*line.info);
  if (line.verify) return run_verify(*line.verify);
  const std::optional<Config> config = configuration(config_options(line, job.log()), job);
  if (!config) return exit_code::kDone;
  if (line.check) return run_check(*line.check, *config, job.log());
  if (line.train || line.pack) install_stop_handlers();  // a stop during start-up is heeded before the first step
  Experiment started = config->experiment;
  if (line.pack) started.device = DeviceChoice::cpu;  // packing computes nothing that a GPU does
  job.start(started);
  allow_tf32(config->experiment.precision);
  require_agreement(job, facts_of_start(line, *config, job));
  if (line.train) return run_train(*line.train, *config, job);
  if (line.eval) return run_eval(*line.eval, *config, job);
  if (line.pack) return run_pack(*line.pack, *config, job);
  if (line.bench_step) return run_bench_step(*line.bench_step, *config, job);
  if (line.bench_input) return run_bench_input(*line.bench_input, *config, job);
  return run_bench_comm(*line.bench_comm, *config, job);
}

// A training step frees and asks for the same large pieces of memory again and again. By default the C library gives
// them back to the kernel, which then clears every page anew: an eighth of a step's time (docs/performance.md). So keep
// them.
static void keep_freed_memory() {
  constexpr int kGigabyte = 1 << 30;
  constexpr int kMostElsewhere = 32 << 20;  // what older C libraries take
  if (mallopt(M_MMAP_THRESHOLD, kGigabyte) == 0) mallopt(M_MMAP_THRESHOLD, kMostElsewhere);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
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
    const int code = dispatch(line, job);
    if (code == exit_code::kDone) flush_output();
    job.finish(code);
    return code;
  } catch (...) {
    return end_in_failure(std::current_exception(), job);
  }
}
