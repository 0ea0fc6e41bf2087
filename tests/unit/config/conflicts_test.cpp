#include <algorithm>

#include "scratch_config.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct Case {
  std::vector<std::string> overrides;
  std::string sentence;
};

const std::vector<std::string> kFolder = {"data.format=image_folder", "data.root=/d"};
const std::vector<std::string> kNih = {"data.format=nih_cxr14", "data.root=/d", "data.labels=l.csv"};
const std::vector<std::string> kCsv = {"data.format=csv", "data.root=/d", "data.labels=l.csv", "data.csv.label=a"};
const std::vector<std::string> kMask = {"data.format=image_mask", "data.root=/d", "model.name=unet"};
const std::vector<std::string> kSynthetic = {"data.format=synthetic"};

std::string errors_with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  try {
    from_overrides(overrides);
  } catch (const Error& error) {
    CHECK(error.code() == 78);
    return error.what();
  }
  return "";
}

void expect(const std::vector<std::string>& base, const std::vector<Case>& cases) {
  CHECK(errors_with(base, {}).empty());
  for (const Case& one : cases) {
    std::string shown;
    for (const std::string& text : one.overrides) shown += text + "  ";
    INFO(shown);
    const std::string wrong = errors_with(base, one.overrides);
    INFO(wrong);
    CHECK(holds(wrong, one.sentence));
    CHECK(wrong.find('\n') == std::string::npos);  // one mistake, one sentence
  }
}

}  // namespace

TEST_CASE("a key without effect is an error that says when it would have one") {
  expect(kSynthetic, {
                         {{"schedule.decay={name: cosine, patience: 3}"},
                          "schedule.decay.patience has no effect here: only when schedule.decay.name is plateau"},
                         {{"schedule.decay.factor=0.5"}, "schedule.decay.factor has no effect"},
                         {{"schedule.decay.final=0.5"}, "schedule.decay.final has no effect"},
                         {{"optimizer={name: sgd, betas: [0.9, 0.99]}"}, "optimizer.betas has no effect"},
                         {{"optimizer={name: sgd, eps: 1}"}, "optimizer.eps has no effect"},
                         {{"optimizer.momentum=0.9"}, "optimizer.momentum has no effect"},
                         {{"optimizer.rho=0.9"}, "optimizer.rho has no effect"},
                         {{"model.dropout=0.1"}, "model.dropout has no effect"},
                         {{"model.base_width=4"}, "model.base_width has no effect"},
                         {{"data.root=/d"}, "data.root has no effect"},
                         {{"data.labels=/l"}, "data.labels has no effect"},
                         {{"data.csv.path=a"}, "data.csv.path has no effect"},
                         {{"data.image_mask.images=a"}, "data.image_mask.images has no effect"},
                         {{"data.split={by: order, seed: 3}"}, "data.split.seed has no effect"},
                         {{"loss.label_smoothing=0.1"}, "loss.label_smoothing has no effect"},
                     });
  expect(kFolder, {
                      {{"loss.pos_weight=balanced"}, "loss.pos_weight has no effect"},
                      {{"data.synthetic.samples=5"}, "data.synthetic.samples has no effect"},
                      {{"data.split={files: {train: a, valid: b}, valid: 0.2}"}, "data.split.valid has no effect"},
                      {{"data.split={fold: 2 of 5, valid: 0.2}"}, "data.split.valid has no effect"},
                      {{"data.split={files: {valid: a}, fold: 2 of 5}"}, "data.split.fold has no effect"},
                      {{"data.split={files: {test: a}, test: 0.2}"}, "data.split.test has no effect"},
                      {{"data.split={folders: {train: a}, stratify: true}"}, "data.split.stratify has no effect"},
                      {{"data.split={by: order, stratify: true}"}, "data.split.stratify has no effect"},
                      {{"data.chexpert.uncertain=ones"}, "data.chexpert.uncertain has no effect"},
                      {{"data.on_missing=skip"}, "data.on_missing has no effect"},
                  });
}

TEST_CASE("device and process count never make a key wrong") {
  CHECK(errors_with(kSynthetic, {"data.loader.threads=3", "distributed={backend: mpi, bucket_mb: 3, logical_ranks: 4}"})
            .empty());
  CHECK(errors_with(kSynthetic, {"distributed.backend=serial", "distributed.logical_ranks=64"}).empty());
}

TEST_CASE("what a format needs must be there, and the task must fit") {
  expect(kNih, {{{"data.labels="}, "data.labels is missing"},
                {{"data.root="}, "data.root is missing"},
                {{"task=multiclass"}, "task multiclass does not fit data.format, which is for multilabel"},
                {{"loss.name=cross_entropy"}, "loss.name cross_entropy does not fit task multilabel"},
                {{"model.outputs=13"}, "model.outputs is 13, but the data have 14 classes"},
                {{"data.classes=[Pneumonia, Edema]", "model.outputs=3"}, "but the data have 2 classes"},
                {{"loss.pos_weight=[1, 2]"}, "loss.pos_weight has 2 factors for 14 outputs"},
                {{"model.name=unet", "data.image.channels=3"}, "model.name unet is for segmentation"}});
  expect(kFolder, {{{"task=multilabel"}, "task multilabel does not fit data.format"},
                   {{"loss.name=bce"}, "loss.name bce does not fit task multiclass"},
                   {{"data.classes=[a]"}, "at least 2 classes"}});
  expect(kMask, {{{"model.name=resnet50"}, "segmentation needs model.name unet"},
                 {{"data.classes=[a]"}, "data.classes has no effect here: only when the task is not segmentation"},
                 {{"data.image_mask.mask_values={1: 1, 2: 3}"}, "must number its classes 1, 2, … without a gap"},
                 {{"model.outputs=2", "data.image_mask.mask_values={255: 1}"},
                  "model.outputs is 2, but the data have 1 class"},
                 {{"data.image.size=[100, 128]"}, "multiples of 16, not 100 × 128"}});
  expect(kCsv, {{{"data.csv.labels=[a, b]"}, "data.csv.label and data.csv.labels (command line) cannot be combined"},
                {{"data.csv.label="}, "format csv needs data.csv.labels"},
                {{"data.csv.label=", "data.csv={labels: [a], separator: ;}"},
                 "data.csv.separator has no effect here: it goes with data.csv.label"},
                {{"task=multilabel"}, "task multilabel wants data.csv.labels"},
                {{"task=multiclass", "data.csv.separator=;"}, "task multiclass wants one class per picture"},
                {{"data.csv.separator='; ;'"}, "data.csv.separator wants one character"},
                {{"data.split.by=patient"}, "needs data.csv.group"}});
  CHECK(holds(errors_with({}, {}), "data.format is missing"));
}

TEST_CASE("the channels of a picture follow from its files or slices, and are told where they do not") {
  expect(kFolder, {{{"data.image.channels=2"}, "data.image.channels wants 1 or 3, not 2: other numbers follow from"},
                   {{"data.image.channels=17"}, "data.image.channels wants a whole number from 1 to 16"},
                   {{"data.image.files=[_0, _1]", "data.image.channels=3"},
                    "data.image.channels is 3, but data.image.files [_0, _1] makes 2 channels; leave it out"},
                   {{"data.image.slices=5", "data.image.channels=3"}, "data.image.slices 5 makes 5 channels"},
                   {{"data.image.slices=4"}, "data.image.slices wants an odd number from 1 to 15"},
                   {{"data.image.slices=3", "data.image.files=[_0, _1, _2]"}, "both say what the channels are"},
                   {{"data.image.files=[_0, _0]"}, "twice"},
                   {{"data.image.files=[_0, _1]", "data.image.mean=[0.1, 0.2, 0.3]"},
                    "data.image.mean has 3 values for 2 channels; give one for each channel"}});
  expect(kSynthetic,
         {{{"data.image.slices=3"}, "data.image.slices has no effect here: only when data.format is image_folder"},
          {{"data.image.files=[_0, _1]"}, "data.image.files has no effect here"}});
  CHECK(errors_with(kSynthetic, {"data.image.slices=1", "data.image.files=none"}).empty());
  std::vector<std::string> words = kFolder;
  words.emplace_back("data.image.files=[_a, _b, _c, _d]");
  const ImageOptions image = from_overrides(words).experiment.data.image;
  CHECK(image.channels == 4);
  CHECK(image.mean == std::vector<double>(4, 0.5));
  CHECK(image.std == std::vector<double>(4, 0.5));
}

TEST_CASE("names that steer a terminal or turn the direction of writing are refused, names in any script are not") {
  const std::string text = "data: {format: synthetic, synthetic: {samples: 8, classes: 2}, image: {size: [32, 32]}}\n";
  CHECK(
      holds(errors_of("name: \"a\\e[31m\"\n" + text), "t.yaml:1:7: name wants a text without characters that control"));
  CHECK(holds(errors_of("name: \"x\\ndtrain: error 0: all good\"\n" + text), "not 'x\\ndtrain: error 0"));
  CHECK(holds(errors_of("name: \"a\\u202eb\"\n" + text), "'a\\u202eb'"));
  CHECK(holds(errors_of("name: \"a\\tb\"\n" + text), "name holds characters that control"));
  CHECK(holds(errors_of(text, {"data.classes=[a, \"b\\eb\"]"}), "data.classes wants a text without"));
  CHECK(holds(errors_of("output: {dir: \"a\\x1eb\"}\n" + text), "output.dir wants a path without control characters"));
  for (const char* name : {"é", "肺", "🫁"}) CHECK(errors_of("name: \"" + std::string(name) + "\"\n" + text).empty());
  CHECK(errors_of("data: {format: csv, root: /d, labels: l.csv, csv: {path: p, label: l, separator: \"\\t\"}, image: "
                  "{size: [32, 32]}}\nmodel: {name: small_cnn}\ntask: multilabel\n")
            .empty());
}

TEST_CASE("values that contradict each other are told where one of them stands") {
  expect(
      kSynthetic,
      {
          {{"batch={per_rank: 4, global: 8}"}, "cannot be combined"},
          {{"batch.global=8", "schedule.scale_with_ranks=linear"},
           "schedule.scale_with_ranks must be none with batch.global"},
          {{"batch.global=8", "distributed.logical_ranks=9"}, "less than one sample for each of 9 logical ranks"},
          {{"data.image.mean=[0.5]"}, "data.image.mean has 1 value for 3 channels"},
          {{"data.image.channels=1", "data.image.std=[1, 1, 1]"}, "data.image.std has 3 values for 1 channel"},
          {{"data.split={valid: 0.5, test: 0.5}"}, "their sum must be less than 1"},
          {{"data.augment.rot90=1", "data.image.size=[64, 32]"}, "needs a square data.image.size, not 64 × 32"},
          {{"data.image.size=[16, 16]"}, "densenet121 needs"},
          {{"data.image.size=[64, 64]", "data.image.window=[28, 64]"}, "data.image.window of at least 29 × 29"},
          {{"data.image.size=[64, 64]", "data.image.window=[65, 64]"}, "65 × 64 is more than data.image.size 64 × 64"},
          {{"data.augment.rot90=1", "data.image.window=[64, 32]"}, "needs a square data.image.window, not 64 × 32"},
          {{"data.augment.random_window=true"}, "only when data.image.window is given"},
          {{"data.loader.cache=device", "data.augment.contrast=0.1"}, "leave one of the two out"},
          {{"data.loader.cache=device", "data.augment.rotate=5"}, "the point where data.augment.rotate is applied"},
          {{"data.augment.random_crop_aspect=[0.5, 2]"}, "only when data.augment.random_crop is given"},
          {{"data.augment.elastic_grid=4"}, "only when data.augment.elastic is above 0"},
          {{"data.augment.random_crop=[0, 1]"}, "data.augment.random_crop"},
          {{"data.augment.random_crop=[1, 0.5]"}, "wants [low, high] with low less than high"},
          {{"data.augment.mixup=0.2", "batch.per_rank=1"}, "data.augment.mixup mixes the pictures of one batch"},
          {{"cuda_graphs=true", "deterministic=false"}, "cuda_graphs needs deterministic"},
          {{"cuda_graphs=true", "model.name=small_cnn", "model.dropout=0.1"}, "model.dropout: 0"},
          {{"optimizer={name: sgd, nesterov: true}"}, "optimizer.nesterov needs optimizer.momentum > 0"},
          {{"schedule.decay.name=multistep"}, "needs schedule.decay.at"},
          {{"schedule.decay={name: multistep, at: [3 epochs, 2 epochs]}"}, "must ascend"},
          {{"schedule.decay={name: multistep, at: [3 epochs, 200 steps]}"}, "all in epochs or all in steps"},
          {{"checkpoint.best.monitor=valid.lss"}, "did you mean 'valid.loss'"},
          {{"checkpoint.best.monitor=valid.iou"}, "is not a column of epochs.csv for task multilabel"},
          {{"model.outputs=3"}, "but the data have 14 classes"},
      });
  expect(kFolder, {{{"data.split={files: {train: a}, folders: {valid: b}}"},
                    "data.split.folders and data.split.files cannot be combined"}});
  CHECK(errors_with(kSynthetic, {"checkpoint.best.monitor=valid.auroc_class3"}).empty());
  CHECK(errors_with(kSynthetic, {"batch.global=8", "schedule.scale_with_ranks=none"}).empty());
  CHECK(errors_with(kSynthetic, {"cuda_graphs=true", "model.name=small_cnn", "model.dropout=0"}).empty());
  CHECK(errors_with(kSynthetic, {"data.loader.cache=none", "data.augment.contrast=0.1"}).empty());
  CHECK(errors_with(kSynthetic, {"data.loader.cache=device", "data.augment.hflip=0.1"}).empty());
  CHECK(errors_with(kSynthetic, {"data.loader.cache=device", "data.augment={mixup: 0.2, cutmix: 1}"}).empty());
  CHECK(errors_with(kSynthetic, {"data.augment={random_crop: [0.08, 1], random_crop_aspect: [0.5, 2]}"}).empty());
  CHECK(errors_with(kSynthetic, {"data.augment.random_crop=none", "batch.per_rank=1"}).empty());
  CHECK(errors_with(kSynthetic, {"data.loader.cache=ram", "data.augment.contrast=0.1"}).empty());
  CHECK(errors_with(kFolder, {"data.loader.on_bad_sample=replace", "data.loader.max_bad=5"}).empty());
}

// What older versions printed into every config.yaml.
TEST_CASE(
    "how samples are loaded can be said in full by its defaults, whichever of it acts; other values only where they "
    "do") {
  const std::string all =
      "data.loader={threads: auto, prefetch: 2, interleave: 10, cache: none, on_bad_sample: fail, max_bad: 100, "
      "pipeline: parallel}";
  for (const std::vector<std::string>& base : {kFolder, kNih, kCsv, kMask, kSynthetic}) {
    CHECK(errors_with(base, {all}).empty());
    CHECK(errors_with(base, {all, "data.loader.pipeline=sequential"}).empty());
    CHECK(errors_with(base, {all, "data.loader={threads: 3, prefetch: 4, cache: ram}"}).empty());
    CHECK(holds(errors_with(base, {all, "data.loader={threads: 3, pipeline: sequential}"}),
                "data.loader.threads has no effect here: only when data.loader.pipeline is parallel"));
    CHECK(holds(errors_with(base, {all, "data.loader.interleave=3"}),
                "data.loader.interleave has no effect here: only when data.format is tfrecord or webdataset"));
  }
}

TEST_CASE("a matter of ranks or of the machine is no key without effect") {
  CHECK(errors_with(kSynthetic, {"schedule.warmup=2 epochs", "distributed.logical_ranks=1"}).empty());
  CHECK(errors_with(kSynthetic, {"distributed={logical_ranks: 1, reduction: ring, bucket_mb: 3, check_every: 5}",
                                 "data.distribute=batches", "schedule.scale_with_ranks=sqrt"})
            .empty());
  CHECK(errors_with(kSynthetic, {"device=cpu", "cuda_graphs=true", "precision=tf32"}).empty());
  CHECK(errors_with(kSynthetic, {"device=cpu", "deterministic=false"}).empty());
}

// A run that began when the key was accepted continues with the configuration that it has stored.
TEST_CASE("what a run has stored may hold keys without effect, and so may nothing else") {
  const std::string text = "data: {format: image_folder, root: /d, loader: {interleave: 3}}\n";
  const std::string idle = "data.loader.interleave has no effect here";
  const ScratchFolder folder;
  const std::string path = folder.write("run/config.yaml", text);
  const auto refusal = [&](const std::vector<std::string>& overrides) {
    try {
      load_config({{path}, false, overrides});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(holds(refusal({}), idle));
  folder.write("run/run.json", "{}");
  CHECK(refusal({}).empty());
  const Config config = load_config({{path}, false, {}});
  CHECK(config.values.at("data.loader.interleave").text == "3");
  CHECK(refusal({"epochs=3"}).empty());
  CHECK(holds(refusal({"data.loader.interleave=4"}), idle));
  CHECK(holds(refusal({"data.loader.pipeline=sequential", "data.loader.prefetch=5"}), "data.loader.prefetch has no"));
  // The key that makes it idle is given now; the stored configuration does not have it.
  folder.write("run/config.yaml", "data: {format: image_folder, root: /d, loader: {threads: 3}}\n");
  CHECK(refusal({}).empty());
  CHECK(holds(refusal({"data.loader.pipeline=sequential"}), "data.loader.threads has no effect here"));
}

TEST_CASE("keys without effect are told, so that a resumed run does not compare them") {
  const auto has = [](const Config& config, const char* key) {
    const std::vector<std::string> idle = idle_keys(config);
    return std::find(idle.begin(), idle.end(), key) != idle.end();
  };
  const Config flat = from_overrides({"data.format=synthetic", "schedule.scale_with_ranks=none"});
  CHECK(has(flat, "schedule.warmup"));
  CHECK(has(flat, "data.loader.interleave"));
  CHECK_FALSE(has(from_overrides(kSynthetic), "schedule.warmup"));
}

TEST_CASE("what a run would never reach, or keep the worst by, is told with the way out") {
  expect(
      kFolder,
      {
          {{"epochs=5", "schedule.decay={name: multistep, at: [3 epochs, 30 epochs]}"},
           "schedule.decay.at has a milestone at 30 epochs, but the run has 5 epochs: it would never be reached"},
          {{"epochs=2", "schedule.decay={name: step, every: 2 epochs}"}, "the rate would never fall"},
          {{"epochs=9", "schedule.decay={name: step, factor: 1}"}, "schedule.decay.factor 1 leaves the rate as it is"},
          {{"epochs=9", "schedule.decay={name: plateau, factor: 1}"}, "give one below 1, or set schedule.decay=null"},
          {{"epochs=9", "schedule.decay={name: cosine, final: 1}"}, "schedule.decay.final 1 leaves the rate as it is"},
          {{"epochs=9", "schedule.decay={name: poly, final: 1}"}, "give a share below 1"},
          {{"epochs=3", "schedule.decay={name: plateau, patience: 3}"},
           "schedule.decay.patience is 3 epochs, but the run has 3 epochs: the rate would never fall"},
          {{"epochs=3", "schedule.warmup=3 epochs", "schedule.decay.name=cosine"},
           "schedule.warmup lasts 3 epochs, the whole run, so schedule.decay never begins"},
          {{"optimizer.groups=[{match: 'fc*', rate: 1}]"}, "'fc*' trains like all the rest"},
          {{"epochs=2", "early_stop.patience=50"},
           "early_stop.patience is 50 epochs, but the run has 2 epochs: it could never stop early"},
          {{"epochs=2", "optimizer={groups: [{match: a, freeze: true}], freeze_until: 2 epochs}"},
           "optimizer.freeze_until is 2 epochs, but the run has 2 epochs: frozen groups would never train"},
          {{"optimizer.groups=[{match: a, freeze: true, rate: 0.5}]"}, "so neither a rate nor a weight decay acts"},
          {{"checkpoint.best={monitor: valid.loss, mode: max}"}, "of valid.loss the smallest is best; write min"},
          {{"checkpoint.best.mode=min"}, "the largest is best; write max or leave the key out"},
          {{"data.image.mean=[123.675, 116.28, 103.53]"}, "'data.image.mean=[0.485, 0.456, 0.406]'"},
          {{"data.image.std=[58.395, 57.12, 57.375]"}, "'data.image.std=[0.229, 0.224, 0.225]'"},
      });
  CHECK(errors_of(
            "epochs: 40\ndata: {format: image_folder, root: /d}\nearly_stop: {patience: 9}\nschedule: {decay: {name: "
            "multistep, at: [30 epochs]}}\n",
            {"epochs=2"})
            .empty());  // a short trial
  CHECK(errors_with(kFolder, {"epochs=3",
                              "optimizer={groups: [{match: a, freeze: true, rate: 0.5}], freeze_until: 2 "
                              "epochs}"})
            .empty());
  CHECK(errors_with(kFolder, {"epochs=3", "early_stop.patience=2", "data.image.mean=[0, 1, 0]",
                              "schedule.decay={name: multistep, at: [2 epochs]}", "checkpoint.best.mode=max"})
            .empty());
  CHECK(errors_with(kFolder, {"schedule.decay={name: step, every: 30 epochs}", "epochs=5", "schedule.decay=null",
                              "early_stop.patience=9", "early_stop=none"})
            .empty());
}

TEST_CASE("a monitor names a column that epochs.csv will have") {
  const std::vector<std::string> no_label = {"data.csv.label=", "data.csv.labels=[red, green]"};
  expect(kNih, {{{"checkpoint.best.monitor=train.auroc"}, "'train.auroc' is not a column of epochs.csv"},
                {{"checkpoint.best.monitor=valid.accuracy"}, "for task multilabel"},
                {{"checkpoint.best.monitor=valid.auroc_Pneumonai"}, "did you mean 'valid.auroc_Pneumonia'"},
                {{"checkpoint.best.monitor=valid.auroc_"}, "is not a column"},
                {{"data.classes=[Mass, Edema]", "checkpoint.best.monitor=valid.auroc_Hernia"}, "is not a column"},
                {{"schedule.decay={name: plateau, monitor: valid.los}"}, "schedule.decay.monitor 'valid.los'"}});
  expect(kFolder, {{{"checkpoint.best.monitor=train.acuracy"}, "did you mean 'train.accuracy'"},
                   {{"data.classes=[a, b]", "checkpoint.best.monitor=valid.auroc_a"}, "is not a column"},
                   {{"checkpoint.best.monitor=valid.dice"}, "there are train.loss, train.accuracy, valid.loss"}});
  expect(kMask,
         {{{"checkpoint.best.monitor=train.iou"}, "is not a column of epochs.csv for task segmentation"},
          {{"data.image_mask.mask_values={255: 1}", "checkpoint.best.monitor=valid.iou_1"}, "is not a column"},
          {{"data.image_mask.mask_values={1: 1, 2: 2}", "checkpoint.best.monitor=valid.iou_3"}, "is not a column"}});
  expect(kCsv, {{{no_label[0], no_label[1], "checkpoint.best.monitor=valid.auroc_gren"}, "valid.auroc_green"}});
  CHECK(errors_with(kNih, {"checkpoint.best.monitor=valid.auroc_Pleural_Thickening"}).empty());
  expect(kNih, {{{"checkpoint.best.monitor=valid.ema_auroc"}, "'valid.ema_auroc' is not a column of epochs.csv"}});
  CHECK(errors_with(kNih, {"checkpoint.best.monitor=valid.ema_auroc_Mass", "ema={decay: 0.99}"}).empty());
  CHECK(errors_with(kCsv, {no_label[0], no_label[1], "checkpoint.best.monitor=valid.auroc_red"}).empty());
  CHECK(errors_with(kFolder, {"checkpoint.best.monitor=valid.auroc_any"}).empty());  // known only from the folders
  CHECK(errors_with(kFolder, {"checkpoint.best.monitor=train.accuracy"}).empty());
  CHECK(errors_with(kMask, {"checkpoint.best.monitor=valid.iou_image"}).empty());
  CHECK(errors_with(kMask, {"checkpoint.best.monitor=valid.iou_cell"}).empty());  // known only from dataset.json
  CHECK(
      errors_with(kMask, {"data.image_mask.mask_values={1: 1, 2: 2}", "checkpoint.best.monitor=valid.iou_2"}).empty());
}

TEST_CASE("the best is the smallest of a loss and the largest of all else, a class called loss included") {
  const auto largest = [](const std::vector<std::string>& base, const std::string& monitor) {
    std::vector<std::string> all = base;
    all.push_back("checkpoint.best.monitor=" + monitor);
    return from_overrides(all).experiment.checkpoint.best_is_max;
  };
  CHECK_FALSE(largest(kFolder, "valid.loss"));
  CHECK_FALSE(largest(kFolder, "train.loss"));
  CHECK(largest(kFolder, "valid.accuracy"));
  CHECK(largest(kFolder, "valid.auroc_loss"));
  const auto rising = [](const std::string& monitor) {
    const std::string plateau = "schedule.decay={name: plateau, monitor: " + monitor + "}";
    return from_overrides({kFolder[0], kFolder[1], plateau}).experiment.schedule.decay.monitor_is_max;
  };
  CHECK_FALSE(rising("valid.loss"));
  CHECK(rising("valid.auroc"));
}

TEST_CASE("a value that was refused is not held against other keys") {
  const std::string wrong = errors_of(
      "data: {format: cvs, root: x, csv: {label: a}, synthetic: {samples: 3}}\noptimizer: {name: sdg, momentum: "
      "0.9}\n");
  CHECK(holds(wrong, "did you mean 'csv'"));
  CHECK(holds(wrong, "did you mean 'sgd'"));
  CHECK_FALSE(holds(wrong, "no effect"));
  CHECK_FALSE(holds(wrong, "missing"));
}

TEST_CASE("a fold is K of N") {
  const auto fold = [](const std::string& text) {
    const SplitOptions split =
        from_overrides({"data.format=synthetic", "data.split.fold=" + text}).experiment.data.split;
    return std::pair(split.fold, split.folds);
  };
  CHECK(fold("2 of 5") == std::pair<int64_t, int64_t>(2, 5));
  CHECK(fold("'1 of 2'") == std::pair<int64_t, int64_t>(1, 2));
  CHECK(fold("none") == std::pair<int64_t, int64_t>(0, 0));
  expect(kFolder, {{{"data.split.fold=6 of 5"}, "wants 1 of N to N of N"},
                   {{"data.split.fold=0 of 5"}, "wants 1 of N to N of N"},
                   {{"data.split.fold=1 of 1"}, "wants 1 of N to N of N"},
                   {{"data.split.fold=1 of 1001"}, "wants 1 of N to N of N"},
                   {{"data.split.fold=2"}, "wants a fold, such as '2 of 5', or none"},
                   {{"data.split.fold=two of five"}, "wants a fold"},
                   {{"data.split.fold=[2, 5]"}, "wants a fold"}});
}

TEST_CASE("CheXpert's policies are words for names of observations") {
  const std::vector<std::string> words = {"data.format=chexpert", "data.root=d"};
  CHECK(errors_with(words, {"data.chexpert.uncertain_labels={Pleural Effusion: ones, Edema: ignore}"}).empty());
  expect(words,
         {{{"data.chexpert.uncertain=maybe"}, "data.chexpert.uncertain wants ignore, ones or zeros"},
          {{"data.chexpert.uncertain_labels={Edma: ones}"}, "names 'Edma' (did you mean 'Edema'?)"},
          {{"data.chexpert.uncertain_labels={Edema: one}"}, "wants ignore, ones or zeros for 'Edema', not 'one'"},
          {{"data.chexpert.uncertain_labels=ones"}, "wants a group"},
          {{"data.chexpert.unmentioned=ones"}, "wants zeros or ignore"},
          {{"model.outputs=5"}, "but the data have 14 classes"},
          {{"checkpoint.best.monitor=valid.auroc_Edma"}, "did you mean 'valid.auroc_Edema'"}});
}

TEST_CASE("keys of record files go with their format, and masks with segmentation") {
  const std::vector<std::string> tfrecord = {"data.format=tfrecord", "data.root=/d"};
  expect(tfrecord,
         {{{"data.webdataset.label=txt"}, "data.webdataset.label has no effect here"},
          {{"data.split.by=patient"}, "data.split.by patient needs data.tfrecord.group"},
          {{"data.tfrecord.names=[a, b]", "model.outputs=3"}, "model.outputs is 3, but the data have 2 classes"},
          {{"data.image_mask.mask_values={1: 1}"}, "data.image_mask.mask_values has no effect here"},
          {{"data.tfrecord.mask=m"}, "segmentation needs model.name unet"}});
  const std::vector<std::string> masks = {"data.format=webdataset", "data.root=/d", "data.webdataset.mask=seg.png",
                                          "model.name=unet", "data.image_mask.mask_values={1: 1, 2: 2}"};
  expect(masks, {{{"data.webdataset.names=[a, b]"},
                  "data.webdataset.names has no effect here: only when data.format is webdataset without "
                  "data.webdataset.mask"},
                 {{"task=multiclass"}, "does not fit data.format, which is for segmentation"}});
  expect({"data.format=tfrecord", "data.root=/d", "task=multilabel"}, {});
}
