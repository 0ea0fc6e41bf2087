#include "dtrain/config/schema.hpp"

#include "dtrain/config/format_texts.hpp"

namespace dtrain {

Key& Key::only(bool effect, const std::string& when, std::vector<std::string> by) {
  only_when = when;
  has_effect = effect;
  selectors = std::move(by);
  return *this;
}

Key& Key::effective_when(bool effect, const std::string& when, std::vector<std::string> by) {
  idle_unless = when;
  idle = !effect;
  idle_selectors = std::move(by);
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

Key& Key::older_runs_had(const std::string& value) {
  in_older_runs = value;
  return *this;
}

Key& Key::older_runs_keep(const std::string& value) {
  kept_by_runs = true;
  return older_runs_had(value);
}

Key& Key::settled_by_runs(const std::string& word) {
  settled_word = word;
  return *this;
}

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"", "The run as a whole."},
      {"model", "The network and where its weights come from."},
      {"loss", "What training minimises. Every loss is a mean over all samples of a step, however many each rank has."},
      {"data", "Which pictures and labels, and how they are prepared for the network."},
      {"batch", "How many samples make one step."},
      {"optimizer",
       "How gradients change the weights. Formulas and defaults are PyTorch's, or those of the optimizer's paper."},
      {"schedule",
       "The learning rate over time: from the base rate to the rate scaled with the logical ranks, then decay."},
      {"early_stop", "When a run ends before its last epoch. `early_stop: none`, the default, turns it off.", true},
      {"ema",
       "A moving average of the weights and of BatchNorm's statistics, evaluated beside them: valid_ema_… in "
       "epochs.csv. "
       "`ema: none`, the default, turns it off.",
       true},
      {"distributed",
       "Logical ranks, on which the result depends, and how processes work together, on which it does not."},
      {"checkpoint", "When the state is saved and which weights are kept as the best."},
      {"output", "Where the run folder is created, and what it holds besides."},
  };
  return all;
}

namespace {

std::string channels_default() {
  const auto grey = [](const NetworkKind& kind) { return kind.image_channels == 1; };
  return "3, for the " + join_last(names_where(networks(), grey), "and") + " without an encoder 1";
}

class Description {
 public:
  explicit Description(Experiment& e) : e_(e) {}

  std::vector<Key> all() {
    run();
    for (Key& key : describe_model(e_)) keys_.push_back(std::move(key));
    data();
    for (Key& key : describe_formats(e_.data)) keys_.push_back(std::move(key));
    split();
    image();
    batch();
    return std::move(keys_);
  }

 private:
  Key& add(const std::string& name, Codec codec, const std::string& doc) {
    return keys_.emplace_back(name, std::move(codec), doc);
  }

  void run() {
    add("name", text_codec(e_.name), "Name of the run; its folder is `output.dir`/name.")
        .default_is("the first file's name without its ending")
        .outside_fingerprint();
    add("task", choice_codec(e_.task),
        "What the network predicts: several labels at once, one class of several, or a class per pixel.")
        .default_is("from `data.format`: " +
                    default_tasks("multilabel, with " + per_pixel_networks() + " segmentation"));
    add("seed", seed_codec(e_.seed),
        "Seed of initial weights, order of the samples, augmentation, dropout and synthetic data.");
    add("on_nan",
        words_codec(
            {"stop", "skip"}, [&e = e_] { return e.skip_not_finite ? 1 : 0; },
            [&e = e_](int i) { e.skip_not_finite = i == 1; }),
        "What to do when a loss or a gradient is NaN or infinite. stop: the run ends with exit code 79, naming the "
        "first such value and its samples; skip: the step changes no weight on any rank, and training continues; after "
        "ten such steps in a row it ends all the same, and so it does if the loss runs away (docs/errors.md).");
    add("epochs", whole_codec(e_.epochs, {.min = 1, .max = 1000000000}), "Passes over the training part.")
        .outside_fingerprint();
    add("precision", choice_codec(e_.precision),
        "Number format in which the network computes; weights, gradients, loss and sums are always float32. tf32: "
        "convolutions and matrix products in TF32 on a GPU, on a CPU as fp32; bf16, fp16: in 16 bits, fp16 with a "
        "scaled loss (a step whose gradients overflow is skipped).");
    add("device", choice_codec(e_.device),
        "Where the network runs, one GPU per rank. auto: on a GPU if this build, the driver and a device allow it, "
        "else on the CPU; `dtrain info` says why.");
    add("deterministic", flag_codec(e_.deterministic),
        "On a GPU: kernels that give the same bits every time, without a search for the fastest; false trades the "
        "promise of the same bits for speed.");
    add("cuda_graphs", flag_codec(e_.cuda_graphs),
        "On a GPU: forward and backward of a full batch are recorded once and issued as one launch, for batches so "
        "small that the GPU waits for the host. Same bits; needs the memory of one more pass, however many logical "
        "ranks a process has. Needs `deterministic: true` and no dropout.")
        .outside_fingerprint();
  }

  void data() {
    DataOptions& d = e_.data;
    const DataFormat& f = *d.format;
    const bool labels = has_label_file(f);
    const std::vector<std::string> by = {"data.format"};
    const std::string when_labels = when_format(has_label_file);
    const std::string when_files = when_not_generated();
    add("data.format", row_codec(d.format, data_formats()),
        "How pictures and labels are laid out; docs/data.md shows each.")
        .default_is("must be given");
    add("data.root", path_codec(d.root, PathRule::beside_file),
        "Folder of the data set, for " + formats_text(has_record_files, "and") +
            " also one record file; relative to the file that names it.")
        .only(!f.generated, when_files, by)
        .default_is("must be given")
        .outside_fingerprint();
    add("data.labels", path_codec(d.labels, PathRule::under_root), "Label file, under `data.root`.")
        .only(labels, when_labels, by)
        .default_is("must be given" + default_label_files());
    add("data.on_missing", choice_codec(d.on_missing),
        "What to do with rows of the label file whose pictures are not under `data.root`. fail: the run ends with 66 "
        "and lists them; "
        "skip: they are left out and counted, and the run ends only if none is left.")
        .only(labels, when_labels, by)
        .outside_fingerprint();
    add("data.classes", texts_codec(d.classes, "all"), "The classes to train, in this order: one output each.")
        .only(e_.task != Task::segmentation, "the task is not segmentation", {"task", "data.format", "model.name"});
    add("data.allow_links", flag_codec(d.allow_links),
        "Follow links under `data.root` (pictures, record files, shards, label files and lists) that lead out of it; "
        "links that stay under it are always followed.")
        .only(!f.generated, when_files, by)
        .outside_fingerprint();
    add("data.sampling", choice_codec(d.sampling),
        "Which samples an epoch takes. uniform: each one once; balanced: as many of each class as of any other, with "
        "several labels of each pattern of labels, and as many in all: those of rare ones come several times, each "
        "time augmented anew, of frequent ones those that earlier epochs left out.")
        .only(e_.task != Task::segmentation, "the task is not segmentation", {"task", "data.format", "model.name"})
        .older_runs_had("uniform");
    add("data.distribute", choice_codec(d.distribute),
        "How a step's samples are distributed to logical ranks. samples: every V-th of the shuffled order; batches: "
        "whole batches in turn.");
    loader();
  }

  void loader() {
    LoaderOptions& loader = e_.data.loader;
    const bool parallel = loader.pipeline == Pipeline::parallel;
    const std::string when_parallel = "`data.loader.pipeline` is parallel";
    const std::string when_records = when_format(has_record_files);
    const std::vector<std::string> by_pipeline = {"data.loader.pipeline"};
    const std::vector<std::string> by_format = {"data.format"};
    add("data.loader.threads", whole_codec(loader.threads, {.min = 1, .max = 1024, .word = "auto", .word_value = 0}),
        "Decoding threads per process; auto: the cores this process may use, minus those that compute, at least 1, "
        "then more or fewer depending on how long training waits.")
        .effective_when(parallel, when_parallel, by_pipeline)
        .outside_fingerprint();
    add("data.loader.prefetch", whole_codec(loader.prefetch, {.min = 1, .max = 1024}),
        "Batches kept ready ahead of the one in use.")
        .effective_when(parallel, when_parallel, by_pipeline)
        .outside_fingerprint();
    add("data.loader.interleave", whole_codec(loader.interleave, {.min = 1, .max = 1024}),
        "Records that a process requests from the disk at once, whichever files they are in: the one being read and "
        "those that follow it, as far as the batches being prepared reach. 1: one after another.")
        .effective_when(has_record_files(*e_.data.format), when_records, by_format)
        .outside_fingerprint();
    add("data.loader.decompressed_mb", whole_codec(loader.decompressed_mb, {.min = 1, .max = 1'000'000'000}),
        "Most memory, in 1e6 bytes, for the decompressed contents of record files that are compressed as a whole, all "
        "of them together, per process; more is refused.")
        .effective_when(has_record_files(*e_.data.format), when_records, by_format)
        .outside_fingerprint();
    add("data.loader.cache", choice_codec(loader.cache),
        "ram: decoded pictures and masks are kept in memory that the training processes of a host share, and not read "
        "again; device: each process keeps the pictures and masks it has seen, decoded and resized, in memory of the "
        "device that computes, a GPU's or its own, and does not read them again; of `data.augment` it allows only "
        "random_window, hflip, vflip, rot90, mixup and cutmix.")
        .outside_fingerprint();
    add("data.loader.on_bad_sample", choice_codec(loader.on_bad_sample),
        "What to do with a training sample that cannot be decoded. fail: the run ends with 65; replace: another "
        "training sample takes "
        "its place, the same for any number of processes.")
        .effective_when(!e_.data.format->generated, when_not_generated(), by_format)
        .outside_fingerprint();
    add("data.loader.max_bad", whole_codec(loader.max_bad, {.min = 1}),
        "Samples that may be replaced in an epoch, over all processes; one more ends the run with 65.")
        .effective_when(loader.on_bad_sample == BadSample::replace, "`data.loader.on_bad_sample` is replace",
                        {"data.loader.on_bad_sample"})
        .outside_fingerprint();
    add("data.loader.pipeline", choice_codec(loader.pipeline),
        "sequential, for comparison with programs without a parallel loader: samples are loaded one at a time when "
        "their batch is needed, and each process reads and decodes the samples of all. The same batches, bit for bit.")
        .outside_fingerprint();
  }

  void split() {
    SplitOptions& s = e_.data.split;
    // If lists or folders name the validation part, nothing is left to split; otherwise what they do not name is.
    const bool open = !s.names("valid");
    const bool told = !s.files.empty() || !s.folders.empty();
    const bool dealt = open && (!told || s.valid > 0 || s.test > 0 || s.folds > 0);
    const auto parts = [](const std::string& part) {
      return std::vector<std::string>{"data.split.files." + part, "data.split.folders." + part};
    };
    const std::string when = "neither `data.split.files.valid` nor `data.split.folders.valid` is given";
    const bool from_files = !e_.data.format->generated;
    const RealRange share{.max = 1, .max_open = true};
    std::vector<std::string> valid_by = parts("valid");
    valid_by.emplace_back("data.split.fold");
    std::vector<std::string> test_by = parts("valid");
    for (const std::string& key : parts("test")) test_by.push_back(key);
    std::vector<std::string> dealt_by = valid_by;
    for (const char* key : {"data.split.valid", "data.split.test"}) dealt_by.emplace_back(key);
    std::vector<std::string> seed_by = dealt_by;
    seed_by.emplace_back("data.split.by");
    const std::string when_dealt = "a share or fold is used: " + when;
    const bool any = s.valid > 0 || s.test > 0 || s.folds > 0;
    const std::string when_any = "`data.split.valid` or `data.split.test` is above 0 or `data.split.fold` is given";
    const std::vector<std::string> any_by = {"data.split.valid", "data.split.test", "data.split.fold"};
    add("data.split.valid", real_codec(s.valid, share),
        "Share of all samples for validation; if lists, folders or a column name only other parts, of the training "
        "samples. Without any `data.split` key, a root that has folders of parts (such as train/ and valid/) uses "
        "those.")
        .only(open && s.folds == 0, when + ", nor `data.split.fold`", valid_by);
    add("data.split.test", real_codec(s.test, share), "Share of all samples for the test part, likewise.")
        .only(open && !s.names("test") && (!told || s.test > 0),
              when + ", nor `data.split.files.test` nor `data.split.folders.test`", test_by);
    add("data.split.by", choice_codec(s.by),
        "patient: all samples of a group are in one part; order: the last ones in the natural order of names. Where "
        "the data, lists or folders name parts, sample keeps each patient in one part too.")
        .only(dealt, when_dealt, dealt_by)
        .effective_when(any, when_any, any_by);
    add("data.split.seed", seed_codec(s.seed),
        "Another seed gives another split; separate from the run's `seed`, so that runs can be compared on one split.")
        .only(dealt && s.by != SplitOptions::By::order, when_dealt + ", and `data.split.by` is not order", seed_by)
        .effective_when(any, when_any, any_by);
    add("data.split.fold", fold_codec(s.fold, s.folds),
        "`K of N`: all but the test part is cut into N folds, of which the K-th validates and the others train; "
        "instead of `data.split.valid`.")
        .only(open && (!told || s.folds > 0), when, parts("valid"));
    add("data.split.stratify", flag_codec(s.stratify),
        "Parts and folds of exact size, with the same share of every class or label. Otherwise the part of a sample "
        "follows from the hash of its name alone: adding data moves no sample, and sizes are met on average.")
        .only(dealt && s.by != SplitOptions::By::order, when_dealt + ", and `data.split.by` is not order", seed_by)
        .effective_when(any && from_files, when_any + ", and " + when_not_generated() + ", whose shares are exact",
                        {"data.split.valid", "data.split.test", "data.split.fold", "data.format"});
    split_parts(from_files);
  }

  void split_parts(bool from_files) {
    SplitOptions& s = e_.data.split;
    for (const char* part : {"train", "valid", "test"})
      add(std::string("data.split.files.") + part, part_path_codec(s.files, part, PathRule::under_root),
          std::string("List file of the ") + part + " part, one path or base name per line; under `data.root`.")
          .only(from_files, when_not_generated(), {"data.format"})
          .default_is("none");
    for (const char* part : {"train", "valid", "test"})
      add(std::string("data.split.folders.") + part, part_path_codec(s.folders, part, PathRule::name_under_root),
          std::string("Folder of the ") + part + " part under `data.root`.")
          .only(from_files, when_not_generated(), {"data.format"})
          .default_is("none");
  }

  void image() {
    ImageOptions& i = e_.data.image;
    const RealRange any{.min = -std::numeric_limits<double>::infinity()};
    add("data.image.size", size_codec(i.height, i.width, {.min = 1, .max = 65536}),
        "Height and width in pixels that pictures are resized to, and that the network sees unless `data.image.window` "
        "is smaller.");
    Codec window = size_codec(i.window_height, i.window_width, {.min = 1, .max = 65536});
    window.print = [&i, print = window.print] { return i.window_height > 0 ? print() : std::string(); };
    add("data.image.window", window,
        "Height and width of the part that the network sees: the middle, or in training any part with "
        "`data.augment.random_window`. No pixel is resampled.")
        .default_is("`data.image.size`");
    add("data.image.channels", whole_codec(i.channels, {.min = 1, .max = ImageOptions::kMostChannels}),
        "Channels that the network sees. 1 or 3: a grey picture is repeated, a coloured one converted to grey (ITU-R "
        "601); any other number follows from `data.image.files` or `data.image.slices`.")
        .default_is(channels_default());
    const bool in_files = has_picture_files(*e_.data.format);
    add("data.image.files", texts_codec(i.files, "none"),
        "What the names of the files end in, before the ending of their format, of which a picture consists, one grey "
        "channel each, in their order: [_0000, _0001]. The first file names the picture; its mask is named without "
        "these endings.")
        .effective_when(in_files, when_format(has_picture_files), {"data.format"})
        .default_is("none; in nnU-Net's layout and packed shards what the data say")
        .older_runs_had("none");
    add("data.image.slices", odd_codec(i.slices, ImageOptions::kMostChannels),
        "2.5-D: pages of a stack (TIFF, DICOM) that are the channels of a picture, the page itself in the middle; "
        "beyond the ends of the stack its first or last page is repeated.")
        .effective_when(in_files, when_format(has_picture_files), {"data.format"})
        .older_runs_had("1");
    add("data.image.resize", choice_codec(i.resize),
        "squash: to size, aspect lost; pad: to fit inside, the rest filled with zero; crop: to cover, centre cut.")
        .effective_when(!e_.data.format->generated, when_not_generated() + ", whose pictures are made in this size",
                        {"data.format"});
    add("data.image.range", range_codec(i.range_low, i.range_high),
        "Pixel values of the file that become 0 and 1; those beyond are clamped: [0, 4095] for 12 bits stored in 16.")
        .default_is("by the picture's depth: [0, 255] or [0, 65535]");
    add("data.image.mean", reals_codec(i.mean, any), "Subtracted from pixels in [0, 1], one per channel.")
        .default_is("ImageNet's [0.485, 0.456, 0.406] for 3 channels, else 0.5 for each");
    add("data.image.std", reals_codec(i.std, {.min_open = true}), "Pixels are then divided by it, one per channel.")
        .default_is("ImageNet's [0.229, 0.224, 0.225] for 3 channels, else 0.5 for each");
    for (Key& key : describe_augmentation(e_.data.augment, i)) keys_.push_back(std::move(key));
  }

  void batch() {
    BatchOptions& b = e_.batch;
    add("batch.per_rank", whole_codec(b.per_rank, {.min = 1, .max = 1000000, .word = "auto", .word_value = 0}),
        "Samples per logical rank and backward pass. auto: the largest that fits into the memory, found when a run "
        "begins and stored as a number, with which it goes on wherever it resumes.")
        .settled_by_runs("auto")
        .only(b.global == 0, "`batch.global` is not given", {"batch.global"});
    add("batch.global", whole_codec(b.global, {.min = 1, .max = 1000000000}),
        "Samples per step of all logical ranks together, the remainder spread over them; instead of `batch.per_rank`.")
        .default_is("none");
    add("batch.accumulate", whole_codec(b.accumulate, {.min = 1, .max = 65536}),
        "Backward passes of each logical rank per step, whose gradients add up: a larger batch in the same memory. "
        "Does not scale the learning rate.");
    add("batch.last",
        words_codec(
            {"short", "drop"}, [&b] { return b.drop_last ? 1 : 0; }, [&b](int i) { b.drop_last = i == 1; }),
        "What to do with the samples left for the last step of an epoch. short: a smaller batch; drop: leave them "
        "out.");
  }

  Experiment& e_;
  std::vector<Key> keys_;
};

}  // namespace

std::vector<Key> describe(Experiment& experiment) {
  std::vector<Key> keys = Description(experiment).all();
  for (Key& key : describe_training(experiment)) keys.push_back(std::move(key));
  return keys;
}

}  // namespace dtrain
