// The keys for how a network is trained; the network and the data are in schema.cpp.
#include <algorithm>
#include <cmath>
#include <functional>

#include "dtrain/config/schema.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {

namespace {

// Sets the other keys to the defaults of the one that is chosen: what else a configuration sets is read after it.
Codec optimizer_codec(OptimizerOptions& o) {
  Codec codec = row_codec(o.kind, optimizers());
  codec.read = [&o, read = codec.read](const YamlNode& node, const PathBases& bases) {
    const std::string wrong = read(node, bases);
    if (wrong.empty()) o = optimizer_defaults(*o.kind);
    return wrong;
  };
  return codec;
}

// All but the name.
std::vector<Key> optimizer_keys(OptimizerOptions& o) {
  std::vector<Key> keys;
  const auto add = [&keys](const std::string& name, Codec codec, const std::string& doc) -> Key& {
    return keys.emplace_back("optimizer." + name, std::move(codec), doc);
  };
  add("learning_rate", real_codec(o.learning_rate, {.min_open = true}),
      "Base rate, before it is scaled with the logical ranks.");
  add("weight_decay", real_codec(o.weight_decay, {}),
      join_last(names_where(optimizers(), std::mem_fn(&OptimizerKind::decoupled_decay)), "and") +
          ": decoupled from the gradient; others: times the weight, added to the gradient.");
  add("decay_norms", flag_codec(o.decay_norms),
      "Whether weight decay acts on biases and on the scales and shifts of normalisation, too.")
      .effective_when(
          o.weight_decay > 0 || std::ranges::any_of(o.groups, [](const auto& g) { return g.weight_decay > 0.0; }),
          "`optimizer.weight_decay` is above 0, or a group's", {"optimizer.weight_decay", "optimizer.groups"})
      .older_runs_had("true");
  add("groups", groups_codec(o.groups),
      "Parameters that train differently, by name (`*`: any characters): a factor of the rate, their own weight decay, "
      "or freeze, which keeps them and the statistics of their norms as they are; the first match counts.")
      .older_runs_had("none");
  add("freeze_until", length_codec(o.freeze_until, {.none = true, .whole = true}),
      "How long the groups that freeze stay as they are; then they train too, with their own rate and weight decay.")
      .only(std::ranges::any_of(o.groups, &ParameterGroup::freeze), "a group of `optimizer.groups` freezes",
            {"optimizer.groups"})
      .older_runs_had("none");
  add("clip_norm", real_codec(o.clip_norm, {.min_open = true, .word = "none"}),
      "Largest norm of the gradient over all parameters; a larger one is scaled down to it.");
  add("momentum", real_codec(o.momentum, {.max = 1, .max_open = true}),
      "u ← momentum · u + gradient, or what the optimizer makes of it, weight ← weight − rate · u.")
      .only_of(*o.kind, optimizers());
  add("nesterov", flag_codec(o.nesterov), "Nesterov's form of momentum; needs `optimizer.momentum` > 0.")
      .only_of(*o.kind, optimizers());
  add("betas", two_reals_codec(o.beta1, o.beta2, {.max = 1, .max_open = true}),
      "β1 and β2 of the optimizer's paper: the decay of its running means of the gradient, or of its square.")
      .only_of(*o.kind, optimizers());
  add("eps", real_codec(o.eps, {.min_open = true}), "Added to the denominator.").only_of(*o.kind, optimizers());
  add("trust_coefficient", real_codec(o.trust_coefficient, {.min_open = true}),
      "η: a tensor's gradient is multiplied by η · ‖weights‖ ÷ (‖gradient‖ + weight decay · ‖weights‖).")
      .only_of(*o.kind, optimizers())
      .older_runs_had("0.001");
  add("rho", real_codec(o.rho, {.max = 1, .max_open = true}), "Decay of the running mean of squared gradients.")
      .only_of(*o.kind, optimizers());
  return keys;
}

// Of optimizer_keys(): "1 for a and b, 2 for c" where the defaults of those that read the key differ, "" where not.
std::vector<std::string> optimizer_default_texts() {
  using Readers = std::pair<std::string, std::vector<std::string>>;  // of one value
  std::vector<std::vector<Readers>> values;
  for (const OptimizerKind* kind : optimizers()) {
    OptimizerOptions own = optimizer_defaults(*kind);
    const std::vector<Key> keys = optimizer_keys(own);
    values.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!keys[i].has_effect) continue;
      const std::string text = keys[i].codec.print();
      auto same = std::ranges::find(values[i], text, &Readers::first);
      if (same == values[i].end()) same = values[i].insert(same, {text, {}});
      same->second.push_back(kind->name);
    }
  }
  std::vector<std::string> texts;
  for (const std::vector<Readers>& of_key : values) {
    std::vector<std::string> parts;
    for (const auto& [value, names] : of_key) parts.push_back(value + " for " + join_last(names, "and"));
    texts.push_back(parts.size() > 1 ? join(parts, ", ") : "");
  }
  return texts;
}

// " or NAME" for each metric besides the loss for which smaller is better.
std::string smaller_metrics() {
  std::string names;
  for (const Metric* metric : epoch_metrics())
    if (!metric->larger_is_better) names += " or " + metric->name;
  return names;
}

class TrainingDescription {
 public:
  explicit TrainingDescription(Experiment& e) : e_(e) {}

  std::vector<Key> all() {
    optimizer();
    schedule();
    early_stop();
    ema();
    distributed();
    checkpoint();
    return std::move(keys_);
  }

 private:
  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    return keys_.emplace_back(name, std::move(codec), doc);
  }

  void optimizer() {
    static const std::vector<std::string> kDefaults = optimizer_default_texts();
    add("optimizer.name", optimizer_codec(e_.optimizer),
        "The rule that turns gradients into updates. " +
            join_last(names_where(optimizers(), std::mem_fn(&OptimizerKind::trust_ratio)), "and") +
            " take the step of each tensor from the norms of its weights and of its update; biases and the scales and "
            "shifts of normalisation take it as it is.");
    std::vector<Key> keys = optimizer_keys(e_.optimizer);
    for (size_t i = 0; i < keys.size(); ++i) keys_.push_back(std::move(keys[i].default_is(kDefaults[i])));
  }

  void schedule() {
    ScheduleOptions& s = e_.schedule;
    DecayOptions& d = s.decay;
    const std::vector<std::string> by = {"schedule.decay.name"};
    const bool step = d.name == DecayName::step;
    const bool multistep = d.name == DecayName::multistep;
    const bool plateau = d.name == DecayName::plateau;
    const bool restarts = d.name == DecayName::cosine_restarts;
    const bool poly = d.name == DecayName::poly;
    add("schedule.scale_with_ranks", choice_codec(s.scale_with_ranks),
        "Scaled rate = base × V, × √V, × V^(2/3) or × 1 for V logical ranks. With `batch.global` only none.")
        .default_is("linear with `batch.per_rank`, none with `batch.global`");
    add("schedule.warmup", length_codec(s.warmup, {.none = true}),
        "Ramp from the base to the scaled rate, linear in fractional epochs (Goyal et al. 2017); decay begins after "
        "it.")
        .effective_when(s.scale_with_ranks != RankScaling::none || d.name != DecayName::constant,
                        "`schedule.scale_with_ranks` is not none or `schedule.decay.name` is not constant",
                        {"schedule.scale_with_ranks", "schedule.decay.name", "batch.global"});
    add("schedule.decay.name", choice_codec(d.name), "How the scaled rate falls.");
    add("schedule.decay.factor", real_codec(d.factor, {.max = 1, .min_open = true}),
        "The rate is multiplied by this at each step, milestone or plateau.")
        .only(step || multistep || plateau, "`schedule.decay.name` is step, multistep or plateau", by);
    add("schedule.decay.every", length_codec(d.every, {.above_zero = true}),
        "Distance between steps; until the first restart.")
        .only(step || restarts, "`schedule.decay.name` is step or cosine_restarts", by);
    add("schedule.decay.at", lengths_codec(d.at), "Milestones, ascending, all in epochs or all in steps.")
        .only(multistep, "`schedule.decay.name` is multistep", by)
        .default_is("must be given");
    add("schedule.decay.final", real_codec(d.final, {.max = 1}), "Share of the scaled rate that is left at the end.")
        .only(d.name == DecayName::cosine || restarts || poly,
              "`schedule.decay.name` is cosine, cosine_restarts or poly", by);
    add("schedule.decay.stretch", real_codec(d.stretch, {.min = 1, .max = 1000}),
        "Length of each period between restarts ÷ that of the one before.")
        .only(restarts, "`schedule.decay.name` is cosine_restarts", by)
        .older_runs_had("1");
    add("schedule.decay.power", real_codec(d.power, {.max = 1000, .min_open = true}),
        "The rate falls with (1 - share of the run that is done) to this power.")
        .only(poly, "`schedule.decay.name` is poly", by)
        .older_runs_had("0.9");
    add("schedule.decay.patience", whole_codec(d.patience, {.min = 0, .max = 1000000}),
        "Epochs without improvement before the rate falls; those of the warmup do not count.")
        .only(plateau, "`schedule.decay.name` is plateau", by);
    add("schedule.decay.monitor", text_codec(d.monitor),
        "Column of epochs.csv that should improve, `valid_loss` written valid.loss.")
        .only(plateau, "`schedule.decay.name` is plateau", by);
  }

  void early_stop() {
    EarlyStopOptions& s = e_.early_stop;
    const std::string when = "`early_stop.patience` is not none";
    const std::vector<std::string> by = {"early_stop.patience"};
    add("early_stop.patience", whole_codec(s.patience, {.min = 1, .max = 1000000, .word = "none", .word_value = 0}),
        "Epochs in a row without improvement after which the run is finished.")
        .older_runs_had("none");
    add("early_stop.monitor", text_codec(s.monitor), "Column of epochs.csv that should improve.")
        .default_is("that of `checkpoint.best.monitor`")
        .only(s.patience > 0, when, by)
        .older_runs_had("none");
    add("early_stop.min_delta", real_codec(s.min_delta, {}), "A value that is better by no more than this is none.")
        .only(s.patience > 0, when, by)
        .older_runs_had("0");
  }

  void ema() {
    add("ema.decay", real_codec(e_.ema.decay, {.max = 1, .min_open = true, .max_open = true, .word = "none"}),
        "After update n the average is d · average + (1 - d) · weights with d = min(decay, (1 + n) / (10 + n)). "
        "Checkpoints hold it (`ema.…`); `checkpoint.best.monitor: valid.ema_loss`, or another of its columns, makes it "
        "best.safetensors.")
        .older_runs_had("none");
  }

  void distributed() {
    DistributedOptions& d = e_.distributed;
    add("distributed.logical_ranks",
        whole_codec(d.logical_ranks, {.min = 1, .max = 65536, .word = "auto", .word_value = 0}),
        "V, on which the result depends, whatever the number of processes; auto: the number of processes, and in a "
        "run that is resumed the checkpoint's. At the end of an epoch `--resume-with distributed.logical_ranks` "
        "changes it; batch and learning rate follow.");
    add("distributed.threads", whole_codec(d.threads, {.min = 1, .max = 1024}),
        "Threads per process inside one operation; the bits depend on it, so it is never derived from the "
        "machine.");
    add("distributed.backend", choice_codec(d.backend),
        "What carries gradients between ranks. auto: under a launcher nccl between GPUs and mpi between CPUs, else "
        "serial.")
        .outside_fingerprint();
    add("distributed.share_device", flag_codec(d.share_device),
        "Ranks of one host may share its GPUs, to rehearse a job of many GPUs on few; needs `distributed.backend: "
        "mpi`.")
        .outside_fingerprint();
    add("distributed.reduction", choice_codec(d.reduction),
        "How gradients are added up over ranks. canonical: one fixed tree over logical ranks, the same bits on any "
        "number of processes; ring: neighbours only; fastest: MPI's or NCCL's own all-reduce; root_cpu: by rank 0 "
        "after backward, the baseline. The last three give different bits with a different number of processes.");
    add("distributed.intra_host", choice_codec(d.intra_host),
        "How ranks of one host communicate. auto: shared memory if /dev/shm has room; network: through MPI's "
        "TCP, to rehearse a cluster on one host.")
        .outside_fingerprint();
    add("distributed.bucket_mb", real_codec(d.bucket_mb, {.max = 1e6, .min_open = true, .word = "auto"}),
        "Size of a gradient bucket in 1e6 bytes; auto: from costs measured at the start, but 4 with ring, fastest and "
        "root_cpu, whose bits depend on it.")
        .outside_fingerprint();
    add("distributed.check_every",
        whole_codec(d.check_every, {.min = 1, .max = 1000000000, .word = "auto", .word_value = 0}),
        "Steps between comparisons of the replicas' parameters and optimizer state; auto: as often as costs less than "
        "0.5 % of the time.")
        .outside_fingerprint();
    add("distributed.watchdog.warn", seconds_codec(d.watchdog.warn_s, true),
        "Time without progress of any rank after which one warning names the rank that is behind.")
        .effective_when(std::isinf(d.watchdog.warn_s) || d.watchdog.warn_s <= d.watchdog.abort_s,
                        "it is none or not above `distributed.watchdog.abort`", {"distributed.watchdog.abort"})
        .outside_fingerprint();
    add("distributed.watchdog.abort", seconds_codec(d.watchdog.abort_s, true),
        "Time without progress of any rank after which the job ends with exit code 76 (docs/reliability.md).")
        .outside_fingerprint();
  }

  void checkpoint() {
    CheckpointOptions& c = e_.checkpoint;
    add("checkpoint.every", length_codec(c.every, {.whole = true, .time = true}),
        "Distance between checkpoints. They are written in the background; training waits only for a copy in memory.")
        .outside_fingerprint();
    add("checkpoint.keep", whole_codec(c.keep, {.min = 1, .max = 1000000}),
        "How many of the newest checkpoints are kept.")
        .outside_fingerprint();
    add("checkpoint.max_failed", whole_codec(c.max_failed, {.min = 1, .max = 1000000}),
        "Saves that may fail in a row, for lack of disk space for example, while training continues; then the run ends "
        "with exit code 74.")
        .outside_fingerprint();
    add("checkpoint.best.monitor", text_codec(c.best_monitor),
        "Column of epochs.csv that decides which weights become best.safetensors; among epochs with equal values the "
        "lowest validation loss does.")
        .default_is("by task: " + default_monitor(Task::multilabel) + ", " + default_monitor(Task::multiclass) +
                    " (multiclass) or " + default_monitor(Task::segmentation) + " (segmentation)");
    add("checkpoint.best.mode",
        words_codec(
            {"max", "min"}, [&c] { return c.best_is_max ? 0 : 1; }, [&c](int i) { c.best_is_max = i == 0; }),
        "Whether the largest or the smallest value is best.")
        .default_is("min for a loss" + smaller_metrics() + ", else max");
    add("output.dir", path_codec(e_.output_dir, PathRule::working_directory),
        "Folder of run folders; relative to the working directory.")
        .default_is("runs")
        .outside_fingerprint();
    add("output.tensorboard", flag_codec(e_.tensorboard),
        "Writes `tensorboard/events.out.tfevents.*` into the run folder too: loss, learning rate, time and images/s of "
        "each step, every column of epochs.csv, and a sheet of the training part as the network sees it.")
        .outside_fingerprint();
  }

  Experiment& e_;
  std::vector<Key> keys_;
};

}  // namespace

std::vector<Key> describe_training(Experiment& experiment) { return TrainingDescription(experiment).all(); }

}  // namespace dtrain
