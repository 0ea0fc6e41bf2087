#include "commands/sweep_points.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/config.hpp"
#include "job/batch_estimate.hpp"
#include "job/epoch_columns.hpp"
#include "job/plan.hpp"

namespace dtrain {
namespace {

/// The plan of the data that was made last: points that differ only in how they train share it.
class SharedPlan {
 public:
  const Plan& of(const Config& config, int64_t logical_ranks) {
    std::string key = std::to_string(logical_ranks);
    for (const auto& [name, value] : config.values)
      if (name == "task" || name == "seed" || name == "model.outputs" || name.starts_with("data.") ||
          name.starts_with("batch."))
        key += "\n" + name + "=" + value.text;
    if (!plan_ || key != key_) plan_ = std::make_unique<Plan>(make_plan(config.experiment, logical_ranks));
    key_ = key;
    return *plan_;
  }

 private:
  std::string key_;
  std::unique_ptr<Plan> plan_;
};

ConfigSources sources_of(const SweepCommand& command, const SweepPoint& point) {
  ConfigSources sources = command.config.sources;
  for (const std::string& word : overrides_of(command.plan, point)) sources.overrides.push_back(word);
  return sources;
}

// The configuration's own seed, as the first point has it. If it cannot be loaded, judging says why.
int64_t first_seed(const SweepCommand& command) {
  SweepPlan once = command.plan;
  once.repeat = 1;
  SweepCommand first = command;
  first.plan = once;
  try {
    const uint64_t seed = load_config(sources_of(first, points_of(once, 0).front())).experiment.seed;
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() - kMostPoints);
    return static_cast<int64_t>(std::min(seed, kMost));
  } catch (const Error&) {
    return 0;
  }
}

JudgedPoint judged_point(const SweepCommand& command, const SweepPoint& point, int64_t cores, SharedPlan& plans,
                         Config& config) {
  config = load_config(sources_of(command, point));
  const Experiment& e = config.experiment;
  require_batch_number(e, "a sweep, whose runs are compared,");
  JudgedPoint judged;
  judged.overrides = overrides_of(command.plan, point);
  judged.logical_ranks = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks : point.ranks;
  if (e.distributed.logical_ranks == 0)
    judged.overrides.push_back("distributed.logical_ranks=" + std::to_string(point.ranks));
  require_ranks_fit(static_cast<int>(point.ranks), judged.logical_ranks);
  const Plan& plan = plans.of(config, judged.logical_ranks);
  require_partners(e, plan);
  require_monitors(e, plan);
  judged.fingerprint = fingerprint_values(config);
  judged.data_sha256 = plan.dataset.manifest_sha256;
  judged.split_sha256 = plan.split.sha256;
  judged.idle_keys = idle_keys(config);
  judged.of_the_run = keys_of_the_run(config);
  judged.warnings = plan.split.warnings;
  judged.epochs = e.epochs;
  judged.task = e.task;
  judged.gpus = e.device == DeviceChoice::cuda;
  std::string column = e.checkpoint.best_monitor;
  std::replace(column.begin(), column.end(), '.', '_');
  judged.row = {.point = point,
                .processes = std::min(point.ranks, cores),
                .monitor = {.column = column, .larger_is_better = e.checkpoint.best_is_max}};
  judged.row.point.seed = static_cast<int64_t>(e.seed);
  return judged;
}

// Everything that a point's run is told, as it was read: of two spellings of one value the same text.
std::string run_of(const SweepPoint& point, const Config& config) {
  std::string text = std::to_string(point.ranks);
  for (const auto& [key, value] : config.values) text += "\n" + key + "=" + value.text;
  return text;
}

// Of two points at least one key differs; what is equal in all is what the study is about.
void keep_equal(std::map<std::string, std::string>& common, const JudgedPoint& point) {
  std::map<std::string, std::string> its = point.fingerprint;
  its["epochs"] = std::to_string(point.epochs);
  std::erase_if(common, [&](const auto& entry) {
    const auto found = its.find(entry.first);
    return found == its.end() || found->second != entry.second;
  });
}

/// A reason to refuse points, and which.
struct Refusal {
  Error error;
  std::vector<std::string> points;
};

void note(std::vector<Refusal>& refused, const Error& error, const std::string& point) {
  for (Refusal& known : refused)
    if (known.error.what() == std::string_view(error.what())) return known.points.push_back(point);
  refused.push_back({error, {point}});
}

[[noreturn]] void refuse(const std::vector<Refusal>& refused, size_t points) {
  if (refused.size() == 1 && refused[0].points.size() == points)
    throw refused[0].error;  // nothing that the points vary
  std::vector<Error> errors;
  std::vector<std::string> lines;
  size_t count = 0;
  for (const auto& [error, its] : refused) {
    errors.push_back(error);
    const std::string others = its.size() > 1 ? " and " + std::to_string(its.size() - 1) + " more" : "";
    lines.push_back(its.front() + others + ": " + join(lines_of(error.what()), " "));
    count += its.size();
  }
  throw Error(merge_errors(errors).code(),
              with_list(std::to_string(count) + " of " + count_of(static_cast<int64_t>(points), "point") +
                            " would be refused, so nothing was started:",
                        lines));
}

}  // namespace

JudgedSweep judge_sweep(const SweepCommand& command, int64_t cores) {
  require_sound(command.plan);
  JudgedSweep sweep;
  sweep.asked.plan = command.plan;
  const std::vector<SweepPoint> points = points_of(command.plan, first_seed(command));
  std::vector<Refusal> refused;
  SharedPlan plans;
  std::unordered_map<std::string, std::string> names;  // of points, by their run
  for (const SweepPoint& point : points) {
    try {
      Config config;
      JudgedPoint judged = judged_point(command, point, cores, plans, config);
      if (const auto [other, is_new] = names.emplace(run_of(point, config), point.name); !is_new)
        throw UsageError("would be the same run as " + other->second +
                         ": its values are read as the same; leave one of them out");
      sweep.points.push_back(std::move(judged));
      if (sweep.points.size() == 1) {
        sweep.name = config.experiment.name;
        sweep.asked.configuration = sweep.points.front().fingerprint;
        sweep.asked.configuration["epochs"] = std::to_string(config.experiment.epochs);
      }
      keep_equal(sweep.asked.configuration, sweep.points.back());
      for (const std::string& warning : sweep.points.back().warnings)
        if (std::find(sweep.warnings.begin(), sweep.warnings.end(), warning) == sweep.warnings.end())
          sweep.warnings.push_back(warning);
    } catch (const Error& error) {
      note(refused, error, point.name);
    }
  }
  if (!refused.empty()) refuse(refused, points.size());
  if (command.plan.repeat > 1) sweep.asked.configuration["seed"] = std::to_string(points.front().seed);
  return sweep;
}

}  // namespace dtrain
