#include "train/auto_batch.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/shards.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/device/tensor_memory.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/train/batch_search.hpp"
#include "job/batch_estimate.hpp"
#include "job/planned_parts.hpp"
#include "train/trial_run.hpp"

namespace dtrain {
namespace {

constexpr const char* kHead = "batch.per_rank: auto: ";
constexpr int64_t kTrialSteps = 2;     // from the second one on it holds what it holds in an epoch
constexpr double kWithGaps = 1.3;      // of what a trial held another start may hold, where tensors have gaps
constexpr double kMostInTrial = 0.95;  // of the memory; a trial beyond it is ended
constexpr double kPatience = 300;      // seconds of a trial; larger batches are of no use

std::string in_megabytes(double mb) { return with_commas(std::llround(mb)) + " MB"; }

/// What a process may take, in megabytes.
struct Room {
  double mb = 0;        ///< a tenth left
  double trial_mb = 0;  ///< of a trial, at most
  double all_mb = 0;    ///< without leaving any
  std::string bound;    ///< "this host", "the control group /job"
  std::string host;     ///< that has the least
};

double as_megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// What one rank knows of its memory.
nlohmann::json own_memory(const Job& job) {
  const MemoryBudget host = host_memory_budget(), own = memory_budget();
  nlohmann::json mine = {{"host", host_name()},
                         {"held_mb", as_megabytes(resident_memory("self").held)},
                         {"free_mb", as_megabytes(host.free_bytes)},
                         {"bound", host.bound},
                         {"own_free_mb", as_megabytes(own.free_bytes)},
                         {"own_bound", own.bound}};
  if (GpuModule* gpu = job.device().module) mine["gpu_free_mb"] = gpu->memory_free_mb();
  return mine;
}

// The least that any process has. `common_mb`: of a host, for all of its processes together.
Room least_room(const std::vector<std::string>& ranks, bool on_gpu, bool share_gpu, double common_mb) {
  struct Host {
    int64_t processes = 0;
    double held_mb = 0, free_mb = 0;
  };
  std::vector<nlohmann::json> all;
  std::map<std::string, Host> hosts;
  for (const std::string& text : ranks) {
    all.push_back(nlohmann::json::parse(text));
    Host& host = hosts[all.back()["host"]];
    host.held_mb += all.back()["held_mb"].get<double>();
    host.free_mb = host.processes++ == 0 ? all.back()["free_mb"].get<double>()
                                         : std::min(host.free_mb, all.back()["free_mb"].get<double>());
  }
  Room least;
  const auto take = [&](const nlohmann::json& rank, double all_mb, double common, int64_t processes,
                        const std::string& bound) {
    const double mb = (kUsedByAuto * all_mb - common) / static_cast<double>(processes);
    if (!least.host.empty() && mb >= least.mb) return;
    least = {mb, (kMostInTrial * all_mb - common) / static_cast<double>(processes),
             all_mb / static_cast<double>(processes), bound, rank["host"].get<std::string>()};
  };
  for (const nlohmann::json& rank : all) {
    const Host& host = hosts[rank["host"]];
    if (on_gpu) {
      take(rank, rank["gpu_free_mb"], 0, share_gpu ? host.processes : 1, "its GPU");
      continue;
    }
    take(rank, host.free_mb + host.held_mb, common_mb, host.processes, rank["bound"]);
    if (rank["own_bound"] != rank["bound"])
      take(rank, rank["own_free_mb"].get<double>() + rank["held_mb"].get<double>(), 0, 1, rank["own_bound"]);
  }
  return least;
}

/// A batch, and how long a trial of it took.
struct Timed {
  int64_t batch = 0;
  double seconds = 0;
};

/// Rank 0's search.
class BatchHunt {
 public:
  BatchHunt(const RunContext& run, Plan& plan, const Network& network, const std::vector<std::string>& ranks)
      : run_(run), plan_(plan), network_(network), e_(run.experiment) {
    carried_ = (plan.logical_ranks + run.job.size() - 1) / run.job.size();
    const int64_t middling = std::min(kMiddlingBatch, most_useful_batch(e_, plan));
    const JobMemory memory = memory_with(e_, plan, network, run.job.size(), middling, plan.logical_ranks);
    line_ = BatchLine(memory);
    on_gpu_ = run.job.device().module != nullptr;
    room_ = least_room(ranks, on_gpu_, e_.distributed.share_device, common_mb(memory));
    give_back_tensor_memory();  // what the estimate took is the trials' now
  }

  BatchFound find() {
    const int64_t most = most_useful_batch(e_, plan_);
    const int ranks = run_.job.size();
    tell((ranks == 1 ? std::string("the process") : "each of " + std::to_string(ranks) + " processes") + " can have " +
         in_megabytes(room_.all_mb) + " of " + room_.bound + " on " + room_.host + ", and a tenth is left");
    constexpr int64_t kModest = 64;  // the first is tried before anything is known of its time
    if (!on_gpu_)
      line_.fixed_mb -= as_megabytes(resident_memory("self").files);  // estimated with them, measured without
    const int64_t half = std::max<int64_t>(1, line_.fitting(room_.mb) / 2);
    const BatchFound found = find_largest_batch({.room_mb = room_.mb,
                                                 .fixed_mb = std::min(line_.fixed_mb, room_.mb / 2),
                                                 .first = std::min(std::max<int64_t>(half, mixes() ? 2 : 1), kModest),
                                                 .most = most},
                                                [this](int64_t batch) { return need_of(batch); });
    if (found.batch > 0) return found;
    if (by_time_)
      throw ConfigError(std::string(kHead) + "each trial takes more than " + std::to_string(std::llround(kPatience)) +
                        " s here; set batch.per_rank to a number, such as the one that dtrain check estimates");
    throw Error(exit_code::kOutOfMemory, std::string(kHead) + "not even one picture per pass fits into the " +
                                             in_megabytes(room_.mb) + " that a process can use of " + room_.bound +
                                             " on " + room_.host +
                                             "; use fewer processes per host, a smaller data.image.size or another "
                                             "model");
  }

  const Room& room() const { return room_; }
  /// Whether larger ones were left out because they would take too long to try.
  bool by_time() const { return by_time_; }

 private:
  void tell(const std::string& sentence) const { run_.job.log().info(kHead + sentence); }

  bool mixes() const { return e_.data.augment.mixup > 0 || e_.data.augment.cutmix > 0; }

  // By the last two trials, whose start takes as long as any other's.
  double forecast_s(int64_t batch) const {
    const auto& [one, other] = timed_;
    if (one.batch == other.batch || one.batch == 0) return 0;
    const double a_picture = (other.seconds - one.seconds) / static_cast<double>(other.batch - one.batch);
    return other.seconds + a_picture * static_cast<double>(batch - other.batch);
  }

  // A trial is one process with one logical rank, or two where this job's processes carry several.
  int64_t trial_ranks() const { return std::min<int64_t>(carried_, 2); }

  // What the job's process is estimated to need beyond the trial's: buffers of more logical ranks, MPI, a cache.
  double beyond_trial_mb(int64_t batch) {
    Experiment alone = e_;
    alone.data.loader.cache = PictureKeep::none;
    const JobMemory job = memory_with(e_, plan_, network_, run_.job.size(), batch, plan_.logical_ranks);
    const JobMemory trial = memory_with(alone, plan_, network_, 1, batch, trial_ranks());
    const double apart = job.peers_mb + (job.shares_cache ? job.cache_mb : 0);
    give_back_tensor_memory();
    return job.process_mb() - apart - trial.process_mb();
  }

  std::optional<double> need_of(int64_t batch) {
    if (batch == 1 && mixes())
      throw ConfigError(std::string(e_.data.augment.mixup > 0 ? "data.augment.mixup" : "data.augment.cutmix") +
                        " mixes the pictures of one batch, and batch.per_rank: auto finds no room for two; use fewer "
                        "processes per host, or a smaller data.image.size");
    if (forecast_s(batch) > kPatience) {
      by_time_ = true;
      tell(std::to_string(batch) + " would take more than " + std::to_string(std::llround(kPatience)) +
           " s to try: something smaller");
      return std::nullopt;
    }
    tell("trying " + std::to_string(batch) + " …");
    const double beyond_mb = beyond_trial_mb(batch);
    const TrialEnd end = run_trial(trial_of(batch, beyond_mb));
    timed_ = {timed_.second, {batch, end.seconds}};
    by_time_ = by_time_ || (end.too_slow && !end.too_much);
    if (end.too_much || end.too_slow) {
      tell(std::to_string(batch) + (end.too_much ? " does not fit" : " takes too long"));
      return std::nullopt;
    }
    const double held_mb = tensors_have_gaps() ? kWithGaps * end.held_mb : end.held_mb;
    const double need_mb = beyond_mb + (on_gpu_ ? end.gpu_peak_mb.value_or(room_.all_mb) : held_mb);
    tell(std::to_string(batch) + " takes " + in_megabytes(need_mb));
    return need_mb;
  }

  TrialRun trial_of(int64_t batch, double beyond_mb) const {
    std::vector<std::string> overrides = {
        "batch.per_rank=" + std::to_string(batch), "distributed.logical_ranks=" + std::to_string(trial_ranks()),
        "distributed.backend=auto", "distributed.share_device=false", "data.loader.cache=none"};
    const bool thaws = e_.optimizer.freeze_until.amount > 0;  // what trains later needs its memory, too
    // Beside this process it has less than the run will have. Beyond that the kernel would end it, and may then end
    // this process as well, if it needs a page while the trial's are being freed.
    const double beside_mb = kMostInTrial * as_megabytes(host_memory_budget().free_bytes);
    if (thaws) overrides.emplace_back("optimizer.freeze_until=1 step");
    return {.sources = source_words(run_.command.config.sources),
            .overrides = std::move(overrides),
            .steps = kTrialSteps + (thaws ? 1 : 0),
            .limit_mb = on_gpu_ ? room_.all_mb * 1e3 : std::min(room_.trial_mb - beyond_mb, beside_mb),
            .limit_s = kPatience,
            .alive = [this] { run_.job.watchdog().enter(Section::start, 0); }};
  }

  const RunContext& run_;
  Plan& plan_;
  const Network& network_;
  const Experiment& e_;
  int64_t carried_ = 1;  // logical ranks of a process, at most
  bool on_gpu_ = false;
  BatchLine line_{JobMemory()};
  Room room_;
  std::pair<Timed, Timed> timed_;  // the last two batches that were tried
  bool by_time_ = false;
};

int64_t found_batch(const RunContext& run, Plan& plan, const std::vector<std::string>& ranks) {
  const Stopwatch watch;
  std::string weights_line;
  BatchFound found;
  Room room;
  bool by_time = false;
  {
    const auto network = make_planned_network(run.experiment, plan, false, weights_line);
    BatchHunt hunt(run, plan, *network, ranks);
    found = hunt.find();
    room = hunt.room();
    by_time = hunt.by_time();
  }
  const Log& log = run.job.log();
  log.info(kHead + std::to_string(found.batch) + " is the largest that fits, found in " + fixed(watch.seconds(), 0) +
           " s by " + count_of(found.trials, "trial") + ": " + in_megabytes(found.need_mb) + " of " +
           in_megabytes(room.all_mb) + (found.at_most ? "; the training part has no more for one step" : "") +
           (by_time ? "; larger ones would take too long to try" : "") +
           (run.command.dry_run ? "; as a line of the configuration:"
                                : "; the run keeps it wherever it resumes; as a line of the configuration:"));
  log.info("batch.per_rank: " + std::to_string(found.batch));
  return found.batch;
}

}  // namespace

void settle_auto_batch(const RunContext& run, Config& config, Plan& plan) {
  if (!run.experiment.batch.is_auto()) return;
  Job& job = run.job;
  const std::vector<std::string> ranks = gather_text(job.comm(), own_memory(job).dump());
  std::string text;
  if (job.is_root()) text = std::to_string(found_batch(run, plan, ranks));
  const int64_t batch = std::stoll(broadcast_text(job.comm(), text));
  settle_batch(config, batch);
  plan.local_batch = batch;
}

}  // namespace dtrain
