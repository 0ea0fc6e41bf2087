#include "dtrain/config/schema.hpp"

namespace dtrain {

Key& Key::only(bool effect, const std::string& when, std::vector<std::string> by) {
  only_when = when;
  has_effect = effect;
  selectors = std::move(by);
  return *this;
}

Key& Key::default_is(const std::string& text) {
  default_text = text;
  return *this;
}

Key& Key::outside_fingerprint() {
  in_fingerprint = false;
  return *this;
}

LossName loss_in_use(const Experiment& e) {
  if (e.loss.name != LossName::automatic) return e.loss.name;
  return e.task == Task::multiclass ? LossName::cross_entropy : LossName::bce;
}

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"", "The run as a whole."},
      {"model", "The network and where its weights come from."},
      {"loss",
       "What training makes small. Every loss is a mean over all samples of a step, whatever their number per rank."},
      {"data", "Which pictures, which labels, and what they become before the network sees them."},
      {"batch", "How many samples make one step."},
      {"optimizer", "How gradients change the weights. The formulas and defaults are PyTorch's."},
      {"schedule",
       "The learning rate over time: from the base rate to the rate scaled with the logical ranks, then decay."},
      {"distributed",
       "Logical ranks, on which the result depends, and how processes work together, on which it does not."},
      {"checkpoint", "When the state is saved and which weights are kept as the best."},
      {"output", "Where the run folder goes."},
  };
  return all;
}

namespace {

class Description {
 public:
  explicit Description(Experiment& e) : e_(e) {}

  std::vector<Key> all() {
    run();
    model();
    loss();
    data();
    formats();
    split();
    image();
    batch();
    optimizer();
    schedule();
    distributed();
    checkpoint();
    return std::move(keys_);
  }

 private:
  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    Key key;
    key.name = name;
    key.codec = std::move(codec);
    key.doc = doc;
    keys_.push_back(std::move(key));
    return keys_.back();
  }

  void run() {
    add("name", text_codec(e_.name), "Name of the run; its folder is `output.dir`/name.")
        .default_is("the first file's name without its ending")
        .outside_fingerprint();
    add("task", choice_codec(e_.task, {"", "multilabel", "multiclass", "segmentation"}),
        "What is asked of the network: several labels at once, one class of several, or a class per pixel.")
        .default_is(
            "from `data.format`: image_folder multiclass; nih_cxr14 multilabel; csv multilabel with `csv.labels` or "
            "`csv.separator`, else multiclass; image_mask segmentation; tfrecord and webdataset segmentation "
            "with a `mask`, else multiclass; synthetic multilabel, with the unet segmentation");
    add("seed", seed_codec(e_.seed),
        "Seed of initial weights, order of the samples, augmentation, dropout and synthetic data.");
    add("on_nan",
        words_codec(
            {"stop", "skip"}, [&e = e_] { return e.skip_not_finite ? 1 : 0; },
            [&e = e_](int i) { e.skip_not_finite = i == 1; }),
        "What a loss or a gradient that is NaN or infinite does. stop: the run ends with exit code 79, naming the "
        "first such value and its samples; skip: the step changes no weight, on any rank, and training goes on; after "
        "ten such steps in a row it ends all the same.");
    add("epochs", whole_codec(e_.epochs, {.min = 1, .max = 1000000000}), "Passes over the training part.")
        .outside_fingerprint();
    add("precision", choice_codec(e_.precision, {"fp32", "tf32", "bf16", "fp16"}),
        "Numbers in which the network computes; weights, gradients, loss and sums are float32 with all of them. tf32: "
        "convolutions and matrix products in TF32 on a GPU, on a CPU as fp32; bf16, fp16: in 16 bits, fp16 with a "
        "scaled loss (a step whose gradients overflow is skipped).");
    add("device", choice_codec(e_.device, {"auto", "cpu", "cuda"}),
        "Where the network runs, one GPU for each rank. auto: on a GPU where this build, the driver and a device allow "
        "it, else on the CPU; `dtrain info` tells why not.");
    add("deterministic", flag_codec(e_.deterministic),
        "On a GPU: kernels that give the same bits every time, without a search for the fastest; false trades the "
        "promise of the same bits for speed.");
  }

  void model() {
    ModelOptions& m = e_.model;
    add("model.name", choice_codec(m.name, {"densenet121", "resnet50", "unet", "small_cnn"}),
        "The network; the unet is for segmentation and the only one that is.");
    add("model.outputs", optional_whole_codec(m.outputs, {.min = 1, .max = 1000000}),
        "Logits per picture, for the unet per pixel; must equal the number of classes in the data.")
        .default_is("the number of classes in the data");
    add("model.weights", path_codec(m.weights, PathRule::beside_file),
        "safetensors file to start from (`scripts/convert_weights` makes one from torchvision's); relative to the file "
        "that names it.")
        .default_is("none: a random start");
    add("model.base_width", whole_codec(m.base_width, {.min = 1, .max = 1024}),
        "Channels of the first block; 16 times as many at the bridge.")
        .only(m.name == NetworkName::unet, "`model.name` is unet", {"model.name"});
    add("model.dropout", real_codec(m.dropout, {.max = 1, .max_open = true}),
        "Probability of dropping a feature before the dense layer.")
        .only(m.name == NetworkName::small_cnn, "`model.name` is small_cnn", {"model.name"});
  }

  void loss() {
    LossOptions& l = e_.loss;
    const LossName in_use = loss_in_use(e_);
    const std::vector<std::string> by = {"loss.name", "task", "data.format", "model.name"};
    add("loss.name", choice_codec(l.name, {"auto", "bce", "cross_entropy"}),
        "auto: cross_entropy for multiclass, else bce (binary cross-entropy with logits). bce of a picture is the mean "
        "over all outputs, for the unet over all pixels too; an unknown label adds 0 to it and no gradient.");
    add("loss.pos_weight", pos_weight_codec(l),
        "Factor on the positive term of each output; balanced: negatives ÷ positives of each label in the training "
        "part.")
        .only(in_use == LossName::bce, "the loss is bce", by);
    add("loss.l2_kernels", real_codec(l.l2_kernels, {}),
        "λ of λ·Σw² over the convolution kernels alone, added to the loss.");
    add("loss.label_smoothing", real_codec(l.label_smoothing, {.max = 1, .max_open = true}),
        "Share of the target spread evenly over all classes.")
        .only(in_use == LossName::cross_entropy, "the loss is cross_entropy", by);
  }

  void data() {
    DataOptions& d = e_.data;
    const DataFormat f = d.format;
    const std::vector<std::string> by = {"data.format"};
    add("data.format",
        choice_codec(d.format,
                     {"image_folder", "nih_cxr14", "csv", "image_mask", "synthetic", "tfrecord", "webdataset"}),
        "How pictures and labels are laid out; docs/data.md shows each.")
        .default_is("must be given");
    add("data.root", path_codec(d.root, PathRule::beside_file),
        "Folder of the data set; relative to the file that names it.")
        .only(f != DataFormat::synthetic, "`data.format` is not synthetic", by)
        .default_is("must be given")
        .outside_fingerprint();
    add("data.labels", path_codec(d.labels, PathRule::under_root), "Label file, under `data.root`.")
        .only(f == DataFormat::nih_cxr14 || f == DataFormat::csv, "`data.format` is nih_cxr14 or csv", by)
        .default_is("must be given");
    add("data.classes", texts_codec(d.classes, "all"), "The classes to train, in this order: one output each.")
        .only(e_.task != Task::segmentation, "the task is not segmentation", {"task", "data.format", "model.name"});
    add("data.allow_links", flag_codec(d.allow_links),
        "Follow links that lead out of `data.root`; links beneath it are always followed.")
        .only(f != DataFormat::synthetic, "`data.format` is not synthetic", by);
    add("data.distribute", choice_codec(d.distribute, {"samples", "batches"}),
        "How a step's samples are dealt to logical ranks. samples: every V-th of the shuffled order; batches: whole "
        "batches in turn.");
    add("data.loader.threads", whole_codec(d.loader.threads, {.min = 1, .max = 1024, .word = "auto", .word_value = 0}),
        "Decoding threads per process; auto: the cores this process may use, less those that compute, at least 1.")
        .outside_fingerprint();
    add("data.loader.prefetch", whole_codec(d.loader.prefetch, {.min = 1, .max = 1024}),
        "Batches held ready ahead of the one in use.")
        .outside_fingerprint();
    add("data.loader.cache", choice_codec(d.loader.cache, {"none", "device"}),
        "device: each training process keeps the pictures and masks it has seen, decoded and resized, in memory of the "
        "device that computes, a GPU's or its own, and reads them no more; not with brightness or contrast.")
        .outside_fingerprint();
  }

  void formats() {
    DataOptions& d = e_.data;
    const std::vector<std::string> by = {"data.format"};
    const bool csv = d.format == DataFormat::csv;
    const bool mask = d.format == DataFormat::image_mask;
    const bool synthetic = d.format == DataFormat::synthetic;
    const std::string when_csv = "`data.format` is csv";
    const std::string when_mask = "`data.format` is image_mask";
    const std::string when_synthetic = "`data.format` is synthetic";
    add("data.csv.path", text_codec(d.csv.path), "Column with the picture's path under `data.root`, or its base name.")
        .only(csv, when_csv, by);
    add("data.csv.labels", texts_codec(d.csv.labels),
        "One column per label, each 0, 1 or empty (unknown). Either this or `data.csv.label`.")
        .only(csv, when_csv, by)
        .default_is("none");
    add("data.csv.label", text_codec(d.csv.label),
        "One column with the class, or with several joined by `data.csv.separator`.")
        .only(csv, when_csv, by)
        .default_is("none");
    add("data.csv.separator", text_codec(d.csv.separator),
        "What stands between several labels in one field, as \"|\"; goes with `data.csv.label`.")
        .only(csv, when_csv, by)
        .default_is("none: one class per field");
    add("data.csv.group", text_codec(d.csv.group), "Column with the patient or another group.")
        .only(csv, when_csv, by)
        .default_is("none");
    add("data.image_mask.images", path_codec(d.image_mask.images, PathRule::name_under_root),
        "Folder of pictures under `data.root`, or under each sample's folder.")
        .only(mask, when_mask, by);
    add("data.image_mask.masks", path_codec(d.image_mask.masks, PathRule::name_under_root),
        "Folder of masks: paired with the pictures by name without ending, or all masks of a sample's folder, united.")
        .only(mask, when_mask, by);
    add("data.image_mask.mask_values", mask_values_codec(d.image_mask.mask_values),
        "Class 1, 2, … of each pixel value of a mask; values not listed are background. Replaced whole by later "
        "sources.")
        .only(has_mask_files(d), "`data.format` is image_mask, or record files have masks",
              {"data.format", "data.tfrecord.mask", "data.webdataset.mask"});
    add("data.synthetic.samples", whole_codec(d.synthetic.samples, {.min = 1, .max = 1000000000}),
        "Pictures made in memory, with labels that a network can learn.")
        .only(synthetic, when_synthetic, by);
    add("data.synthetic.classes", whole_codec(d.synthetic.classes, {.min = 1, .max = 100000}), "Classes among them.")
        .only(synthetic, when_synthetic, by);
    for (Key& key : describe_record_files(d)) keys_.push_back(std::move(key));
  }

  void split() {
    SplitOptions& s = e_.data.split;
    const bool fractions = s.files.empty() && s.folders.empty();
    const std::vector<std::string> by = {"data.split.files.train",   "data.split.files.valid",
                                         "data.split.files.test",    "data.split.folders.train",
                                         "data.split.folders.valid", "data.split.folders.test"};
    const std::string when = "neither `data.split.files` nor `data.split.folders` is given";
    const bool from_files = e_.data.format != DataFormat::synthetic;
    const RealRange share{.max = 1, .max_open = true};
    std::vector<std::string> seed_by = by;
    seed_by.push_back("data.split.by");
    add("data.split.valid", real_codec(s.valid, share),
        "Share of all samples for validation. Without any `data.split` key, a root that holds train/ and valid/ (or "
        "val/) uses those.")
        .only(fractions, when, by);
    add("data.split.test", real_codec(s.test, share), "Share of all samples for the test part.")
        .only(fractions, when, by);
    add("data.split.by", choice_codec(s.by, {"sample", "patient", "order"}),
        "patient: all samples of a group fall in one part; order: the last ones of the natural order of names.")
        .only(fractions, when, by);
    add("data.split.seed", seed_codec(s.seed),
        "Another seed, another split; apart from the run's `seed`, so that runs can be compared on one split.")
        .only(fractions && s.by != SplitOptions::By::order, when + " and `data.split.by` is not order", seed_by);
    for (const char* part : {"train", "valid", "test"})
      add(std::string("data.split.files.") + part, part_path_codec(s.files, part, PathRule::under_root),
          std::string("List file of the ") + part + " part, one path or base name a line; under `data.root`.")
          .only(from_files, "`data.format` is not synthetic", {"data.format"})
          .default_is("none");
    for (const char* part : {"train", "valid", "test"})
      add(std::string("data.split.folders.") + part, part_path_codec(s.folders, part, PathRule::name_under_root),
          std::string("Folder of the ") + part + " part under `data.root`.")
          .only(from_files, "`data.format` is not synthetic", {"data.format"})
          .default_is("none");
  }

  void image() {
    ImageOptions& i = e_.data.image;
    AugmentOptions& a = e_.data.augment;
    const RealRange any{.min = -std::numeric_limits<double>::infinity()};
    const RealRange share{.max = 1};
    add("data.image.size", size_codec(i.height, i.width, {.min = 1, .max = 65536}),
        "Height and width in pixels that the network sees.");
    Codec channels = words_codec(
        {"1", "3"}, [&i] { return i.channels == 1 ? 0 : 1; }, [&i](int n) { i.channels = n == 0 ? 1 : 3; });
    channels.json_schema = R"({"enum":[1,3]})";
    add("data.image.channels", channels,
        "Channels that the network sees: a grey picture is repeated, a coloured one turned to grey (ITU-R 601).")
        .default_is("3, for the unet 1");
    add("data.image.resize", choice_codec(i.resize, {"squash", "pad", "crop"}),
        "squash: to size, aspect lost; pad: to fit inside, the rest filled with zero; crop: to cover, centre cut.");
    add("data.image.mean", reals_codec(i.mean, any), "Subtracted from pixels in [0, 1], one per channel.")
        .default_is("ImageNet's [0.485, 0.456, 0.406] for 3 channels, [0.5] for 1");
    add("data.image.std", reals_codec(i.std, {.min_open = true}), "Divides them then, one per channel.")
        .default_is("ImageNet's [0.229, 0.224, 0.225] for 3 channels, [0.5] for 1");
    add("data.augment.hflip", real_codec(a.hflip, share), "Probability of mirroring left to right, in training alone.");
    add("data.augment.vflip", real_codec(a.vflip, share), "Probability of mirroring top to bottom.");
    add("data.augment.rot90", real_codec(a.rot90, share),
        "Probability of a turn by 90, 180 or 270 degrees; needs a square `data.image.size`.");
    add("data.augment.brightness", real_codec(a.brightness, share), "b: pixels times a factor from [1 - b, 1 + b].");
    add("data.augment.contrast", real_codec(a.contrast, share),
        "c: distance from the picture's mean times a factor from [1 - c, 1 + c].");
  }

  void batch() {
    BatchOptions& b = e_.batch;
    add("batch.per_rank", whole_codec(b.per_rank, {.min = 1, .max = 1000000}),
        "Samples per logical rank and backward pass.")
        .only(b.global == 0, "`batch.global` is not given", {"batch.global"});
    add("batch.global", whole_codec(b.global, {.min = 1, .max = 1000000000}),
        "Samples per step of all logical ranks together, the remainder spread; instead of `batch.per_rank`.")
        .default_is("none");
    add("batch.accumulate", whole_codec(b.accumulate, {.min = 1, .max = 65536}),
        "Backward passes of each logical rank in a step, whose gradients add up: a larger batch in the same memory. "
        "Does not scale the learning rate.");
    add("batch.last",
        words_codec(
            {"short", "drop"}, [&b] { return b.drop_last ? 1 : 0; }, [&b](int i) { b.drop_last = i == 1; }),
        "What becomes of the samples left for the last step of an epoch: a smaller batch, or nothing.");
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
        "Way from the base to the scaled rate, linear in fractional epochs (Goyal et al. 2017); there is none to go "
        "where both are equal.");
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
        "after "
        "backward, "
        "the baseline. The last three give other bits with another number of processes.");
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
        "Time without progress of any rank after which one warning names the rank that is behind; without effect above "
        "`distributed.watchdog.abort`.")
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
        "Column of epochs.csv that decides which weights become best.safetensors.")
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

std::vector<Key> describe(Experiment& experiment) { return Description(experiment).all(); }

}  // namespace dtrain
