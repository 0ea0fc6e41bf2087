// The keys of how a network is trained; what is trained on what is in schema.cpp.
#include <cmath>

#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

class TrainingDescription {
 public:
  explicit TrainingDescription(Experiment& e) : e_(e) {}

  std::vector<Key> all() {
    optimizer();
    schedule();
    distributed();
    checkpoint();
    return std::move(keys_);
  }

 private:
  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    return keys_.emplace_back(name, std::move(codec), doc);
  }

  void optimizer() {
    OptimizerOptions& o = e_.optimizer;
    const std::vector<std::string> by = {"optimizer.name"};
    const bool sgd = o.name == OptimizerName::sgd;
    const bool adam = o.name == OptimizerName::adam || o.name == OptimizerName::adamw;
    add("optimizer.name", choice_codec(o.name, {"sgd", "adam", "adamw", "adagrad", "adadelta"}),
        "The rule that turns gradients into updates.");
    add("optimizer.learning_rate", real_codec(o.learning_rate, {.min_open = true}),
        "Base rate, before it is scaled with the logical ranks.");
    add("optimizer.weight_decay", real_codec(o.weight_decay, {}),
        "adamw: decoupled from the gradient; others: times the weight, added to the gradient.");
    add("optimizer.clip_norm", real_codec(o.clip_norm, {.min_open = true, .word = "none"}),
        "Largest norm of the gradient over all parameters; a larger one is scaled down to it.");
    add("optimizer.momentum", real_codec(o.momentum, {.max = 1, .max_open = true}),
        "u ← momentum · u + gradient, weight ← weight − rate · u.")
        .only(sgd, "`optimizer.name` is sgd", by);
    add("optimizer.nesterov", flag_codec(o.nesterov), "Nesterov's form of momentum; needs `optimizer.momentum` > 0.")
        .only(sgd, "`optimizer.name` is sgd", by);
    add("optimizer.betas", two_reals_codec(o.beta1, o.beta2, {.max = 1, .max_open = true}),
        "Decay of the running means of the gradient and of its square.")
        .only(adam, "`optimizer.name` is adam or adamw", by);
    add("optimizer.eps", real_codec(o.eps, {.min_open = true}), "Added to the denominator.")
        .only(!sgd, "`optimizer.name` is adam, adamw, adagrad or adadelta", by)
        .default_is("1e-08 for adam and adamw, 1e-10 for adagrad, 1e-06 for adadelta");
    add("optimizer.rho", real_codec(o.rho, {.max = 1, .max_open = true}),
        "Decay of the running mean of squared gradients.")
        .only(o.name == OptimizerName::adadelta, "`optimizer.name` is adadelta", by);
  }

  void schedule() {
    ScheduleOptions& s = e_.schedule;
    DecayOptions& d = s.decay;
    const std::vector<std::string> by = {"schedule.decay.name"};
    const bool step = d.name == DecayName::step;
    const bool multistep = d.name == DecayName::multistep;
    const bool plateau = d.name == DecayName::plateau;
    add("schedule.scale_with_ranks", choice_codec(s.scale_with_ranks, {"linear", "sqrt", "two_thirds", "none"}),
        "Scaled rate = base × V, × √V, × V^(2/3) or × 1 for V logical ranks. With `batch.global` only none.")
        .default_is("linear with `batch.per_rank`, none with `batch.global`");
    add("schedule.warmup", length_codec(s.warmup, {.none = true}),
        "Way from the base to the scaled rate, linear in fractional epochs (Goyal et al. 2017); decay begins after it.")
        .effective_when(s.scale_with_ranks != RankScaling::none || d.name != DecayName::constant,
                        "`schedule.scale_with_ranks` is not none or `schedule.decay.name` is not constant",
                        {"schedule.scale_with_ranks", "schedule.decay.name", "batch.global"});
    add("schedule.decay.name", choice_codec(d.name, {"constant", "step", "multistep", "cosine", "plateau"}),
        "How the scaled rate falls.");
    add("schedule.decay.factor", real_codec(d.factor, {.max = 1, .min_open = true}),
        "The rate times this at each step, milestone or plateau.")
        .only(step || multistep || plateau, "`schedule.decay.name` is step, multistep or plateau", by);
    add("schedule.decay.every", length_codec(d.every, {.above_zero = true}), "Distance between steps.")
        .only(step, "`schedule.decay.name` is step", by);
    add("schedule.decay.at", lengths_codec(d.at), "Milestones, ascending, all in epochs or all in steps.")
        .only(multistep, "`schedule.decay.name` is multistep", by)
        .default_is("must be given");
    add("schedule.decay.final", real_codec(d.final, {.max = 1}), "Share of the scaled rate that is left at the end.")
        .only(d.name == DecayName::cosine, "`schedule.decay.name` is cosine", by);
    add("schedule.decay.patience", whole_codec(d.patience, {.min = 0, .max = 1000000}),
        "Epochs without improvement that are borne; those of the warmup do not count.")
        .only(plateau, "`schedule.decay.name` is plateau", by);
    add("schedule.decay.monitor", text_codec(d.monitor),
        "Column of epochs.csv that should improve, `valid_loss` written valid.loss.")
        .only(plateau, "`schedule.decay.name` is plateau", by);
  }

  void distributed() {
    DistributedOptions& d = e_.distributed;
    add("distributed.logical_ranks",
        whole_codec(d.logical_ranks, {.min = 1, .max = 65536, .word = "auto", .word_value = 0}),
        "V: what the result depends on, whatever number of processes carries them; auto: the number of processes.");
    add("distributed.threads", whole_codec(d.threads, {.min = 1, .max = 1024}),
        "Threads per process inside one operation; part of what the bits depend on, so never derived from the "
        "machine.");
    add("distributed.backend", choice_codec(d.backend, {"auto", "nccl", "mpi", "serial"}),
        "What carries gradients between ranks. auto: under a launcher nccl between GPUs and mpi between CPUs, else "
        "serial.")
        .outside_fingerprint();
    add("distributed.share_device", flag_codec(d.share_device),
        "Ranks of one host may share its GPUs, to rehearse a job of many GPUs on few; needs `distributed.backend: "
        "mpi`.")
        .outside_fingerprint();
    add("distributed.reduction", choice_codec(d.reduction, {"canonical", "ring", "fastest", "root_cpu"}),
        "How gradients are added up over ranks. canonical: one fixed tree over logical ranks, the same bits on any "
        "number of processes; ring: neighbours only; fastest: the own all-reduce of MPI or NCCL; root_cpu: by rank 0 "
        "after backward, the baseline. The last three give other bits with another number of processes.");
    add("distributed.intra_host", choice_codec(d.intra_host, {"auto", "network"}),
        "How ranks of one host reach each other. auto: shared memory where /dev/shm has room; network: through MPI's "
        "TCP, to rehearse a cluster on one host.")
        .outside_fingerprint();
    add("distributed.bucket_mb", real_codec(d.bucket_mb, {.max = 1e6, .min_open = true, .word = "auto"}),
        "Size of a gradient bucket in 1e6 bytes; auto: from costs measured at the start, 4 with ring, fastest and "
        "root_cpu, whose bits depend on it.")
        .outside_fingerprint();
    add("distributed.check_every",
        whole_codec(d.check_every, {.min = 1, .max = 1000000000, .word = "auto", .word_value = 0}),
        "Steps between comparisons of the replicas' parameters and optimizer state; auto: so many that they cost less "
        "than 0.5 % of the time.")
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
        "Distance between checkpoints. They are written beside training, which waits for a copy in memory alone.")
        .outside_fingerprint();
    add("checkpoint.keep", whole_codec(c.keep, {.min = 1, .max = 1000000}), "Newest checkpoints that are kept.")
        .outside_fingerprint();
    add("checkpoint.max_failed", whole_codec(c.max_failed, {.min = 1, .max = 1000000}),
        "Saves that may fail one after another, for want of room say, while training goes on; then the run ends with "
        "exit code 74.")
        .outside_fingerprint();
    add("checkpoint.best.monitor", text_codec(c.best_monitor),
        "Column of epochs.csv that decides which weights become best.safetensors; of epochs with one value the lowest "
        "validation loss does.")
        .default_is("by task: valid.auroc, valid.accuracy (multiclass) or valid.iou (segmentation)");
    add("checkpoint.best.mode",
        words_codec(
            {"max", "min"}, [&c] { return c.best_is_max ? 0 : 1; }, [&c](int i) { c.best_is_max = i == 0; }),
        "Whether the largest or the smallest value is best.")
        .default_is("min for a loss, else max");
    add("output.dir", path_codec(e_.output_dir, PathRule::working_directory),
        "Folder of run folders; relative to the working directory.")
        .default_is("runs")
        .outside_fingerprint();
  }

  Experiment& e_;
  std::vector<Key> keys_;
};

}  // namespace

std::vector<Key> describe_training(Experiment& experiment) { return TrainingDescription(experiment).all(); }

}  // namespace dtrain
