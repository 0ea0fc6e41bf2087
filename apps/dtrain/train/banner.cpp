#include "train/banner.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <set>

#include "dtrain/base/host.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/launch.hpp"
#include "job/batch_estimate.hpp"
#include "job/job_advice.hpp"
#include "line/versions.hpp"

namespace dtrain {

// What `precision` means on this machine.
static std::string precision_text(Replica& replica) {
  switch (replica.precision()) {
    case Precision::fp32:
      break;
    case Precision::tf32:
      return replica.device().place.is_cpu() ? "tf32, which a CPU computes as fp32" : "tf32";
    case Precision::bf16:
      return "bf16 with fp32 weights and sums";
    case Precision::fp16:
      return "fp16 with fp32 weights and sums, loss scale " + shortest(replica.loss_scale().scale);
  }
  return "fp32";
}

static void tell_about_cores(const RunContext& run, const Plan& plan, const RanksTable& table) {
  const Experiment& e = run.experiment;
  const Log& log = run.job.log();
  const auto cores = static_cast<int64_t>(bound_cores().size());
  for (const auto& row : table) {
    const auto bound = static_cast<int64_t>(read_core_ranges(row.at("cores")).size());
    const std::string rank = "rank " + row.at("rank") + " on " + row.at("host");
    const std::string warning = binding_warning(run.job.launch(), rank, bound, e.distributed.threads + 1);
    if (warning.empty()) continue;
    log.warning(warning);
    break;  // the first speaks for all
  }
  if (!run.job.device().place.is_cpu()) return;
  if (run.job.size() == 1 && cores > e.distributed.threads && plan.logical_ranks == 1)
    log.info("one process uses " + std::to_string(e.distributed.threads) + " of " + std::to_string(cores) +
             " cores for training; mpirun -np " + std::to_string(cores) + " --bind-to none dtrain … would use all");
  std::map<std::string, std::set<int>> cores_of;
  std::map<std::string, int64_t> ranks_of;
  for (const auto& row : table) {
    for (const int core : read_core_ranges(row.at("cores"))) cores_of[row.at("host")].insert(core);
    ++ranks_of[row.at("host")];
  }
  for (const auto& [host, ranks] : ranks_of) {
    const auto here = static_cast<int64_t>(cores_of[host].size());
    const int64_t fit = std::max<int64_t>(1, here / e.distributed.threads);
    if (e.distributed.threads > here)
      log.warning("distributed.threads is " + std::to_string(e.distributed.threads) + ", and " + host + " has " +
                  count_of(here, "core") +
                  " for them: they take turns; the result depends on their number, so it is kept");
    if (ranks > fit)
      log.warning(
          count_of(ranks, "rank") + " on " + host + " take turns on " + count_of(here, "core") + "; " +
          count_of(fit, "rank") + " there wait less" +
          (e.distributed.reduction == Reduction::canonical
               ? ", and with distributed.logical_ranks=" + std::to_string(plan.logical_ranks) + " give the same result"
               : ""));
  }
}

// Of all_findings(), what matters more than a few samples or seconds; the others are counted.
static void tell_findings(const RunContext& run, const Plan& plan, const TrainingParts& built,
                          const PictureFacts& pictures, const RanksTable& table) {
  constexpr int kTold = weight::kPoor - 5;
  const auto processes = std::count_if(table.begin(), table.end(),
                                       [&](const auto& row) { return row.at("host") == table.front().at("host"); });
  const JobMemory memory = job_memory(run.experiment, plan, built.replica->network(), pictures, processes);
  run.job.advise_on_memory(fitting_batch_advice(run.experiment, plan, memory));
  int64_t smaller = 0;
  for (const Finding& one : all_findings({run.experiment, plan, pictures, memory})) {
    const bool of_memory = one.name == "memory" || one.name == "cache";
    if (of_memory && one.weight < weight::kStops) continue;  // part of what is free has been taken by this process
    if (one.weight >= kTold)
      run.job.log().warning("worth a look: " + one.sentence);
    else
      ++smaller;
  }
  if (smaller > 0)
    run.job.log().info("dtrain check lists " +
                       (smaller == 1 ? std::string("one smaller thing") : std::to_string(smaller) + " smaller things") +
                       " worth a look");
}

void tell_beginning(const RunContext& run, const Plan& plan, const TrainingParts& built, const TrainingState& state,
                    const Resume& resume, const RanksTable& table, const PictureFacts& pictures) {
  const Experiment& e = run.experiment;
  const Log& log = run.job.log();
  const auto count = [](const std::vector<int64_t>& part) { return with_commas(static_cast<int64_t>(part.size())); };
  int64_t parameters = 0;
  for (const at::Tensor& parameter : built.replica->parameters()) parameters += parameter.numel();
  log.info(version_text());
  std::vector<std::vector<std::string>> ranks = {{"rank", "host", "local rank", "device", "cores"}};
  for (const auto& row : table)
    ranks.push_back({row.at("rank"), row.at("host"), row.at("local_rank"), row.at("device"), row.at("cores")});
  for (const std::string& line : table_lines(ranks)) log.info(line);
  if (!run.job.why_cpu().empty()) log.debug("the CPU computes: " + run.job.why_cpu());
  log.info("data   " + (e.data.root.empty() ? e.data.format->name : e.data.root) + ": " + count(plan.split.train) +
           " train, " + count(plan.split.valid) + " valid, " + count(plan.split.test) + " test; " +
           count_of(static_cast<int64_t>(plan.outputs.size()), "class", "classes") + "; split " +
           plan.split.sha256.substr(0, 12));
  for (const auto* notes : {&plan.dataset.notes, &plan.split.notes})
    for (const std::string& note : *notes) log.info("       " + note);
  for (const std::string& warning : plan.split.warnings)
    if (is_leak(warning)) log.warning(warning);
  if (const auto groups = sampled_groups(e.data.sampling, plan.dataset, plan.split.train); !groups.empty())
    log.info("       " + balance_text(groups, static_cast<int64_t>(plan.split.train.size())));
  log.info("model  " + run.experiment.model.kind->name + ": " + with_commas(parameters) + " parameters, " +
           count_of(plan.shape.outputs, "output") + "; " + built.weights_line + "; " + precision_text(*built.replica));
  const int64_t global = full_global_batch(e.batch, plan.logical_ranks);
  const std::string passes = e.batch.accumulate > 1 ? " x " + std::to_string(e.batch.accumulate) + " passes" : "";
  log.info("batch  " + std::to_string(plan.local_batch) + " per rank x " +
           count_of(plan.logical_ranks, "logical rank") + passes + " = " + std::to_string(global) + " global; " +
           count_of(built.steps_per_epoch, "step") + " per epoch, " + count_of(e.epochs, "epoch") + "; learning rate " +
           shortest(built.schedule->base_rate()) + " -> " + shortest(built.schedule->scaled_rate()));
  const GradientReducer& reducer = built.trainer->reducer();
  log.info("sums   " + run.config.values.at("distributed.reduction").text + " over " + reducer.transport() + "; " +
           count_of(static_cast<int64_t>(reducer.bucket_count()), "bucket") + " of up to " +
           fixed(reducer.cost().bucket_mb, 1) + " MB");
  if (adds_up_first(e.loss, e.task, plan.logical_ranks * e.batch.accumulate))
    log.info("loss   " + loss_in_use(e.loss, e.task).name +
             " over the whole batch takes one more forward pass a step; " +
             "loss.dice=per_rank does without, and is taken over each logical rank's pass alone");
  if (!built.kept.line.empty()) log.info(built.kept.line);
  if (e.data.loader.pipeline == Pipeline::sequential)
    log.info(
        "loader sequential: one sample after another, when its batch is needed, and each process reads and decodes "
        "those of all; the same batches as parallel, only for comparison");
  tell_about_cores(run, plan, table);
  tell_findings(run, plan, built, pictures, table);
  if (const std::vector<std::string> leaks = content_leaks(plan, pictures); !leaks.empty())
    log.warning(leaks.front() +
                (leaks.size() > 1 ? "; so are " + std::to_string(leaks.size() - 1) + " more of those looked at" : "") +
                "; dtrain check compares all");
  if (resume.resumed)
    log.info("resume " + resume.path + ": " + count_of(state.epoch, "epoch") + " finished, step " +
             std::to_string(state.step));
  if (resume.grows())
    log.info("       from here on with " + count_of(plan.logical_ranks, "logical rank") + ", until here with " +
             std::to_string(resume.state.logical_ranks) +
             ": the batch, the steps of an epoch and the learning rate above follow");
  for (const std::string& skipped : resume.skipped) log.warning("skipped a damaged checkpoint: " + skipped);
}

}  // namespace dtrain
