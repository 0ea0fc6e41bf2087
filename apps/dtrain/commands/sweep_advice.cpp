#include "commands/sweep_advice.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/config/study_description.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/device/gpu_driver.hpp"
#include "job/batch_estimate.hpp"
#include "job/plan.hpp"

namespace dtrain {
namespace {

bool typed(const SweepCommand& command, const std::string& option) {
  return std::find(command.typed.begin(), command.typed.end(), option) != command.typed.end();
}

int64_t advised_ranks(const SweepCommand& command, const Experiment& e) {
  const std::vector<int64_t>& ranks = command.plan.ranks;
  if (typed(command, "--ranks") && ranks.size() != 1)
    throw UsageError("--advise is about one number of ranks: give --ranks one number, such as --ranks 8");
  const int64_t logical_ranks = typed(command, "--ranks") ? ranks.front() : e.distributed.logical_ranks;
  if (logical_ranks < 2)
    throw UsageError(
        "--advise needs a number of ranks above 1 that the job is to have: --ranks 8, or distributed.logical_ranks in "
        "the configuration");
  return logical_ranks;
}

std::string text_of(const Config& config, const std::string& key) {
  const auto found = config.values.find(key);
  return found == config.values.end() ? "none" : found->second.text;
}

bool is_length(const std::string& word) { return word.starts_with("epochs="); }

// Of the configuration, without what the line says of the short runs.
int64_t whole_epochs(ConfigSources sources) {
  std::erase_if(sources.overrides, is_length);
  return load_config(sources).experiment.epochs;
}

}  // namespace

std::optional<AdviceAsked> plan_advice(SweepCommand& command) {
  if (!command.advise) return std::nullopt;
  ConfigSources& sources = command.config.sources;
  if (std::any_of(sources.files.begin(), sources.files.end(), is_study))
    throw UsageError("--advise is about a configuration, not a study file; name that with --config");
  const Config config = load_config(sources);
  const Experiment& e = config.experiment;
  require_batch_number(e, "a sweep, whose runs are compared,");
  const int64_t logical_ranks = advised_ranks(command, e);
  if (e.batch.global > 0)
    throw ConfigError("with batch.global the batch does not grow with the ranks, and the rate need not either: " +
                      std::string("--advise is for batch.per_rank"));
  const Plan plan = make_plan(e, logical_ranks);
  const int64_t steps = std::max<int64_t>(1, planned_epoch(e, plan, 0).steps());
  AdviceAsked asked{.present = {text_of(config, "schedule.scale_with_ranks"), text_of(config, "schedule.warmup")},
                    .epochs = e.epochs,
                    .of_epochs = whole_epochs(sources),
                    .seeds = typed(command, "--repeat") ? command.plan.repeat : 2};
  Duration warmup = e.schedule.warmup;
  if (warmup.amount == 0) warmup = {static_cast<double>(advice_warmup(asked.of_epochs)), Duration::Unit::epochs};
  if (std::none_of(sources.overrides.begin(), sources.overrides.end(), is_length)) {
    const double warmup_epochs = warmup.in_steps(steps) / static_cast<double>(steps);
    asked.epochs = advice_epochs(e.epochs, warmup_epochs, steps);
    sources.overrides.push_back("epochs=" + std::to_string(asked.epochs));
  }
  if (e.distributed.logical_ranks > 0) sources.overrides.emplace_back("distributed.logical_ranks=auto");
  command.plan = advice_plan(logical_ranks, asked.present, warmup.text(), asked.seeds);
  if (command.output.empty()) command.output = "studies/" + e.name + "_advise";
  return asked;
}

int64_t places_for_advice(const SweepCommand& command, int64_t cores) {
  if (load_config(command.config.sources).experiment.device == DeviceChoice::cpu) return cores;
  const GpuDriver driver = ask_gpu_driver();
  if (!no_gpu_reason(driver).empty()) return cores;
  return std::min(cores, static_cast<int64_t>(driver.gpus.size()));
}

}  // namespace dtrain
