// The options of dtrain sweep.
#include <utility>

#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"

namespace dtrain {

static void require_sound_launch(const SweepCommand& sweep) {
  if (sweep.launch == SweepLaunch::slurm) return;
  for (const auto& [given, name] :
       {std::pair(sweep.ranks_per_node > 0, "--ranks-per-node"), std::pair(!sweep.site_template.empty(), "--template"),
        std::pair(sweep.write_only, "--write-only")})
    if (given) throw UsageError(std::string(name) + " is about jobs of Slurm; give --launch slurm too");
}

static void add_launch(CLI::App& app, SweepCommand& sweep) {
  add_choice(app, "--launch", sweep.launch,
             "where points run: one after another on this machine, or each as a job of Slurm, submitted at once");
  add_count(app, "--ranks-per-node", sweep.ranks_per_node,
            "with Slurm: points with more ranks get several nodes (default: all ranks of a point on one node)");
  app.add_option("--template", sweep.site_template,
                 "with Slurm: a site's own #SBATCH lines, modules and settings, put before the line that trains")
      ->type_name("FILE");
  app.add_flag("--write-only", sweep.write_only,
               "with Slurm: write the jobs and submit.sh into the study's jobs/, and submit nothing");
}

// What --advise varies it chooses itself.
static void require_advice_alone(const SweepCommand& sweep) {
  if (!sweep.advise) return;
  for (const auto& [given, name] : {std::pair(!sweep.plan.over.empty(), "--over"), std::pair(sweep.plan.zip, "--zip"),
                                    std::pair(sweep.plan.folds > 0, "--folds"), std::pair(sweep.tiny, "--tiny")})
    if (given) throw UsageError(std::string(name) + " does not go with --advise, which chooses what it varies itself");
}

// A key has one value on the line, or those of --over.
static void require_varied_alone(const SweepCommand& sweep) {
  for (const SweepAxis& axis : sweep.plan.over)
    for (const std::string& word : sweep.config.sources.overrides)
      if (word.starts_with(axis.key + "="))
        throw UsageError("--over varies " + axis.key + ", and " + word + " sets it: leave one out, or write --over " +
                         axis.key + "=V,V without spaces");
}

void CommandTable::add_sweep() {
  CLI::App& app = command(
      app_, "sweep",
      "many runs of one configuration: numbers of ranks, values of keys, seeds, folds, as options or as a study file; "
      "one after another on this machine or as jobs of Slurm, with tables of speed-up and of mean ± sd; started again "
      "it "
      "goes on",
      "--config FILE|STUDY.yaml [KEY=VALUE …] [--ranks N,N…] [options]",
      {{"dtrain sweep -c chips.yaml --ranks 1,2", "speed-up, and what more ranks do to the result"},
       {"dtrain sweep -c chips.yaml name=rates --over optimizer.learning_rate=0.01,0.001 --repeat 3",
        "two learning rates, each with three seeds"},
       {"dtrain sweep -c chips.yaml name=pairs --over optimizer.learning_rate=0.01,0.001 --over epochs=3,6 --zip",
        "pairs: 0.01 for 3 epochs, 0.001 for 6"},
       {"dtrain sweep -c chips.yaml name=folds --folds 5", "five-fold cross-validation"},
       {"dtrain sweep configs/studies/unet_scaling.yaml --tiny", "a shipped study, small enough for two cores"},
       {"dtrain sweep -c chips.yaml name=advice --advise --ranks 8", "how the rate should grow with 8 ranks"},
       {"dtrain sweep -c chips.yaml --ranks 1,2 --retry-failed", "again what has failed"},
       {"dtrain sweep -c chips.yaml --ranks 1,4,8 --launch slurm --ranks-per-node 4 --template site.sbatch",
        "as jobs of Slurm; the same command says how far they are"}},
      nullptr);
  filled_.emplace_back(&app, [this, &app] {
    sweep_.progress = progress();
    sweep_.config = with_words(sweep_.config, true);
    sweep_.plan.over.clear();
    for (const std::string& text : typed_.over) sweep_.plan.over.push_back(read_axis(text));
    for (const char* name : {"--ranks", "--over", "--repeat", "--folds"})
      if (app.count(name) > 0) sweep_.typed.emplace_back(name);
    if (sweep_.launch == SweepLaunch::slurm && app.count("--jobs") == 0) sweep_.jobs = 0;
    require_varied_alone(sweep_);
    require_advice_alone(sweep_);
    require_sound_launch(sweep_);
    return sweep_;
  });
  add_config(app, sweep_.config);
  add_counts(app, "--ranks", sweep_.plan.ranks,
             "numbers of ranks; with more ranks than cores a point runs as so many logical ranks on one process a "
             "core, and has no rates (default: 1)");
  app.add_option("--over", typed_.over, "a key and its values; of several --over every combination runs")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("KEY=V,V…");
  app.add_flag("--zip", sweep_.plan.zip, "pair the values of several --over instead: first with first, and so on");
  add_count(app, "--repeat", sweep_.plan.repeat, "run each point with N seeds: seed, seed + 1 …")
      ->capture_default_str();
  add_count(app, "--folds", sweep_.plan.folds, "cross-validation: run each point on N folds (data.split.fold)");
  app.add_flag("--advise", sweep_.advise,
               "short runs tell how the learning rate should grow with the number of --ranks (default: "
               "distributed.logical_ranks); 2 seeds each (--repeat), epochs=N sets their length");
  app.add_option("--output", sweep_.output, "the study's folder (default: studies/NAME)")->type_name("DIR");
  app.add_flag("--tiny", sweep_.tiny, "of a study file: its tiny variant, of minutes on two cores");
  add_count(app, "--jobs", sweep_.jobs,
            "points side by side, each on its share of the cores; their rates are left empty, since they wait for each "
            "other. With Slurm: the most points of one job array at a time, by default as many as Slurm starts")
      ->capture_default_str();
  add_launch(app, sweep_);
  app.add_flag("--retry-failed", sweep_.retry_failed, "run points again that an earlier start saw fail");
  app.add_flag("--dry-run", sweep_.dry_run, "check and list all points; start and write nothing");
  add_progress(app);
}

}  // namespace dtrain
