// The options of dtrain simulate.
#include "dtrain/base/error.hpp"
#include "dtrain/study/simulate/scaling_prediction.hpp"
#include "line/command_table.hpp"

namespace dtrain {

void CommandTable::add_simulate() {
  CLI::App& app = command(
      app_, "simulate",
      "what a measured job would do on more ranks: step time, images/s, efficiency, time to train, what binds; the "
      "model's error on published measurements is always told",
      "--from RUN|BENCH.json [--ranks N,N…] [options]",
      {{"dtrain simulate --from runs/chips --ranks 1,2,4,8", "from a run's folder, on one machine"},
       {"dtrain bench step -c chips.yaml --json > step.json", "or measure a few steps on one rank,"},
       {"dtrain simulate --from step.json --ranks 1,64,4096 --cluster configs/clusters/example.yaml",
        "and predict for the machine that a file describes"},
       {"dtrain simulate --from step.json --from input.json --from comm.json --ranks 1,2,4,8",
        "with the limits of the loader and of sums, by bench input and comm"},
       {"dtrain simulate --from step.json --logical-ranks 8 --ranks 1,2,4,8", "eight batches, shared by the ranks"},
       {"dtrain simulate --validate", "the model against 26 published points"}},
      [this] {
        if (simulate_.from.empty() && !simulate_.validate)
          throw UsageError(
              "dtrain simulate needs a measurement: --from a run's folder, or a file that dtrain bench step --json > "
              "FILE wrote; --validate needs none");
        if (simulate_.from.empty() &&
            (!simulate_.ranks.empty() || !simulate_.cluster.empty() || simulate_.logical_ranks > 0))
          throw UsageError("--ranks, --cluster and --logical-ranks have no effect without --from");
        for (const int64_t n : simulate_.ranks)
          if (n > kMostRanks)
            throw UsageError("--ranks " + std::to_string(n) + " is more than can be predicted, " +
                             std::to_string(kMostRanks));
        if (simulate_.logical_ranks > kMostRanks)
          throw UsageError("--logical-ranks " + std::to_string(simulate_.logical_ranks) +
                           " is more than can be predicted, " + std::to_string(kMostRanks));
        return simulate_;
      });
  app.add_option("--from", simulate_.from,
                 "a run's folder, or what dtrain bench step, input or comm wrote with --json; may be repeated: of "
                 "several measured steps the mean counts, and the spread between them")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("PATH");
  add_counts(app, "--ranks", simulate_.ranks, "numbers of ranks, up to 65536 (default: 1,2,4 … 64)");
  app.add_option(
         "--cluster", simulate_.cluster,
         "description of the machine: configs/clusters/example.yaml shows all keys (default: one machine with a "
         "core for every rank)")
      ->type_name("FILE");
  add_count(
      app, "--logical-ranks", simulate_.logical_ranks,
      "logical ranks of the job, as distributed.logical_ranks: batches a step, which the ranks share (default: one "
      "for each rank)");
  app.add_flag("--validate", simulate_.validate, "list every published point, measured and predicted");
  app.add_flag("--json", simulate_.json, kJson);
}

}  // namespace dtrain
