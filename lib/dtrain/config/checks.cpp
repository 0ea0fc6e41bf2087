#include "dtrain/config/checks.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/spelling.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

Task task_of_format(const Experiment& e) {
  return natural_task(e.data).value_or(e.model.name == NetworkName::unet ? Task::segmentation : Task::multilabel);
}

double default_eps(OptimizerName name) {
  if (name == OptimizerName::adagrad) return 1e-10;
  return name == OptimizerName::adadelta ? 1e-6 : 1e-8;
}

// The names that the configuration gives to classes in record files.
const std::vector<std::string>& record_names(const DataOptions& d) {
  static const std::vector<std::string> kNone;
  if (!has_records(d) || has_mask_files(d)) return kNone;
  return d.format == DataFormat::tfrecord ? d.tfrecord.names : d.webdataset.names;
}

// The classes as far as the configuration tells them: their names are columns.
std::optional<std::vector<std::string>> class_names(const Experiment& e) {
  const DataOptions& d = e.data;
  if (has_mask_files(d)) {
    if (d.image_mask.mask_values.empty()) return std::nullopt;  // the data tell
    std::set<std::string> numbers;
    for (const auto& [pixel, number] : d.image_mask.mask_values) numbers.insert(std::to_string(number));
    return std::vector<std::string>(numbers.begin(), numbers.end());
  }
  if (!d.classes.empty()) return d.classes;
  if (d.format == DataFormat::nih_cxr14) return nih_findings();
  if (d.format == DataFormat::chexpert) return chexpert_observations();
  if (d.format == DataFormat::csv && !d.csv.labels.empty()) return d.csv.labels;
  if (const std::vector<std::string>& names = record_names(d); !names.empty()) return names;
  return std::nullopt;
}

// The columns of epochs.csv that a monitor may name, and the stem ("valid.auroc_") of those that end in a class.
struct Columns {
  std::vector<std::string> names;
  std::string class_stem;  // "" where classes have no columns
};

Columns columns_of(Task task, const std::optional<std::vector<std::string>>& classes) {
  const auto several = [&](size_t least) { return !classes || classes->size() >= least; };
  switch (task) {
    case Task::multiclass:
      return {{"train.loss", "train.accuracy", "valid.loss", "valid.accuracy", "valid.auroc"},
              several(3) ? "valid.auroc_" : ""};
    case Task::segmentation:
      return {{"train.loss", "valid.loss", "valid.iou", "valid.iou_image", "valid.dice"},
              several(2) ? "valid.iou_" : ""};
    case Task::multilabel:
    case Task::from_format:
      break;
  }
  return {{"train.loss", "valid.loss", "valid.auroc"}, "valid.auroc_"};
}

}  // namespace

void fill_defaults(Experiment& e, const std::set<std::string>& given) {
  if (e.task == Task::from_format) e.task = task_of_format(e);
  ImageOptions& image = e.data.image;
  if (!given.contains("data.image.channels")) image.channels = e.model.name == NetworkName::unet ? 1 : 3;
  const bool colour = image.channels == 3;
  if (image.mean.empty()) image.mean = colour ? std::vector<double>{0.485, 0.456, 0.406} : std::vector<double>{0.5};
  if (image.std.empty()) image.std = colour ? std::vector<double>{0.229, 0.224, 0.225} : std::vector<double>{0.5};
  if (!given.contains("optimizer.eps")) e.optimizer.eps = default_eps(e.optimizer.name);
  if (!given.contains("schedule.scale_with_ranks") && e.batch.global > 0)
    e.schedule.scale_with_ranks = RankScaling::none;
  CheckpointOptions& best = e.checkpoint;
  if (best.best_monitor.empty())
    best.best_monitor = e.task == Task::multilabel   ? "valid.auroc"
                        : e.task == Task::multiclass ? "valid.accuracy"
                                                     : "valid.iou";
  if (!given.contains("checkpoint.best.mode")) best.best_is_max = larger_is_better(best.best_monitor);
  if (!given.contains("output.dir"))
    e.output_dir = (std::filesystem::current_path() / e.output_dir).lexically_normal().string();
  if (e.data.split.names("train") && !given.contains("data.split.valid")) e.data.split.valid = 0;
  e.data.split.given =
      std::any_of(given.begin(), given.end(), [](const std::string& key) { return key.starts_with("data.split."); });
}

namespace {

class Checker {
 public:
  Checker(Experiment& e, const std::map<std::string, Place>& given, const std::set<std::string>& bad,
          const Place& nowhere)
      : e_(e), given_(given), bad_(bad), nowhere_(nowhere) {}

  std::vector<Problem> all() {
    problems_ = keys_without_effect(e_, given_, bad_);
    name();
    required();
    task();
    loss();
    csv();
    split();
    image();
    cache();
    graphs();
    masks();
    outputs();
    batch();
    optimizer();
    device();
    decay();
    monitors();
    return std::move(problems_);
  }

 private:
  bool given(const std::string& key) const { return given_.contains(key); }

  /// None of these was refused by itself, so that their values mean something.
  bool sound(const std::vector<std::string>& keys) const {
    return std::none_of(keys.begin(), keys.end(), [&](const std::string& key) { return bad_.contains(key); });
  }

  std::string where(const std::string& key) const {
    const auto place = given_.find(key);
    return place == given_.end() ? "the default" : place->second.origin();
  }

  /// Reported where the first of `keys` that is set stands.
  void wrong(const std::vector<std::string>& keys, const std::string& sentence) {
    for (const std::string& key : keys)
      if (const auto place = given_.find(key); place != given_.end()) {
        problems_.push_back({place->second, sentence});
        return;
      }
    problems_.push_back({nowhere_, sentence});
  }

  void name() {
    const std::string& name = e_.name;
    if (name.find('/') != std::string::npos || name == "." || name == "..")
      wrong({"name"}, "name wants a plain name, not '" + name + "': it becomes a folder under output.dir");
    if (!is_printable(name))
      wrong({"name"}, "name holds characters that steer a terminal or turn the direction of writing: '" + name + "'");
  }

  void required() {
    if (!sound({"data.format"})) return;
    if (!given("data.format")) {
      problems_.push_back(
          {nowhere_,
           "data.format is missing: image_folder, nih_cxr14, chexpert, csv, image_mask, tfrecord, webdataset, "
           "packed or synthetic"});
      return;
    }
    const DataFormat format = e_.data.format;
    if (format != DataFormat::synthetic && !given("data.root"))
      wrong({"data.format"}, "data.root is missing: the folder of the data set");
    if ((format == DataFormat::nih_cxr14 || format == DataFormat::csv) && !given("data.labels"))
      wrong({"data.format"}, "data.labels is missing: the label file, under data.root");
  }

  // The format allows the task, and the network serves it.
  void task() {
    if (!sound({"data.format", "task", "model.name"}) || !given("data.format")) return;
    const DataFormat format = e_.data.format;
    const bool labels = format == DataFormat::csv || (has_records(e_.data) && !has_mask_files(e_.data));
    const bool any_task = format == DataFormat::synthetic || format == DataFormat::packed;
    const bool fits = any_task || (labels && e_.task != Task::segmentation) || e_.task == task_of_format(e_);
    if (!fits) {
      const std::string only = labels ? "multilabel or multiclass" : task_name(task_of_format(e_));
      return wrong({"task"},
                   std::string("task ") + task_name(e_.task) + " does not fit data.format, which is for " + only);
    }
    const bool unet = e_.model.name == NetworkName::unet;
    if (unet && e_.task != Task::segmentation)
      wrong({"model.name"}, "model.name unet is for segmentation, but the task is " + std::string(task_name(e_.task)));
    if (!unet && e_.task == Task::segmentation)
      wrong({"model.name", "task", "data.format"},
            "segmentation needs model.name unet, the only network that answers per pixel");
  }

  void loss() {
    if (!sound({"loss.name", "data.format", "task"}) || !given("data.format") || e_.loss.name == LossName::automatic)
      return;
    const bool cross_entropy = e_.loss.name == LossName::cross_entropy;
    if (cross_entropy != (e_.task == Task::multiclass))
      wrong({"loss.name"}, std::string("loss.name ") + (cross_entropy ? "cross_entropy" : "bce") +
                               " does not fit task " + task_name(e_.task) + ", which wants " +
                               (cross_entropy ? "bce" : "cross_entropy"));
  }

  void csv() {
    if (e_.data.format != DataFormat::csv ||
        !sound({"data.format", "data.csv.labels", "data.csv.label", "data.csv.separator"}))
      return;
    const CsvOptions& csv = e_.data.csv;
    if (!csv.labels.empty() && !csv.label.empty())
      return wrong({"data.csv.label"}, "data.csv.label and data.csv.labels (" + where("data.csv.labels") +
                                           ") exclude each other; keep one");
    if (csv.labels.empty() && csv.label.empty())
      return wrong({"data.format"},
                   "format csv needs data.csv.labels (one column per label) or data.csv.label (one column)");
    if (!csv.separator.empty() && csv.label.empty())
      wrong({"data.csv.separator"}, "data.csv.separator has no effect here: it goes with data.csv.label");
    if (!csv.separator.empty() && !lone_character(csv.separator))
      wrong({"data.csv.separator"}, "data.csv.separator wants one character, not '" + csv.separator + "'");
    if (!sound({"task"})) return;
    const bool several = !csv.labels.empty() || !csv.separator.empty();
    if (several && e_.task == Task::multiclass)
      wrong({"task"}, "task multiclass wants one class per picture: data.csv.label without data.csv.separator");
    if (!several && e_.task == Task::multilabel)
      wrong({"task"}, "task multilabel wants data.csv.labels, or data.csv.separator beside data.csv.label");
  }

  void split() {
    const SplitOptions& s = e_.data.split;
    if (!s.files.empty() && !s.folders.empty())
      wrong({"data.split.folders.train", "data.split.folders.valid", "data.split.folders.test"},
            "data.split.folders and data.split.files exclude each other; keep one");
    if (sound({"data.split.valid", "data.split.test"}) && s.valid + s.test >= 1)
      wrong({"data.split.test", "data.split.valid"}, "data.split.valid " + shortest(s.valid) + " and data.split.test " +
                                                         shortest(s.test) +
                                                         " leave nothing for training; their sum must be below 1");
    if (!sound({"data.format", "data.split.by"}) || s.by != SplitOptions::By::patient) return;
    if (e_.data.format == DataFormat::csv && e_.data.csv.group.empty() && sound({"data.csv.group"}))
      wrong({"data.split.by"}, "data.split.by patient needs data.csv.group, the column that names the patient");
    for (const auto& [format, group] : {std::pair{DataFormat::tfrecord, "data.tfrecord.group"},
                                        std::pair{DataFormat::webdataset, "data.webdataset.group"}})
      if (e_.data.format == format && !given(group))
        wrong({"data.split.by"}, std::string("data.split.by patient needs ") + group + ", which names the patient");
  }

  void image() {
    const ImageOptions& i = e_.data.image;
    const bool known = sound({"data.image.channels", "model.name"});
    const auto count = static_cast<int64_t>(i.mean.size());
    if (known && sound({"data.image.mean"}) && count != i.channels)
      wrong({"data.image.mean", "data.image.channels"},
            "data.image.mean has " + count_of(count, "value") + " for " + count_of(i.channels, "channel"));
    const auto std_count = static_cast<int64_t>(i.std.size());
    if (known && sound({"data.image.std"}) && std_count != i.channels)
      wrong({"data.image.std", "data.image.channels"},
            "data.image.std has " + count_of(std_count, "value") + " for " + count_of(i.channels, "channel"));
    if (!sound({"data.image.size", "data.image.window", "model.name"})) return;
    const auto text = [](int64_t height, int64_t width) {
      return std::to_string(height) + " × " + std::to_string(width);
    };
    if (i.window_height > i.height || i.window_width > i.width)
      return wrong({"data.image.window", "data.image.size"},
                   "data.image.window " + text(i.window_height, i.window_width) + " is more than data.image.size " +
                       text(i.height, i.width));
    const int64_t height = i.seen_height(), width = i.seen_width();
    const std::string key = i.window_height > 0 ? "data.image.window" : "data.image.size";
    const std::string size = text(height, width);
    if (e_.data.augment.rot90 > 0 && height != width)
      wrong({"data.augment.rot90"}, "data.augment.rot90 needs a square " + key + ", not " + size);
    const int64_t least = std::min(height, width);
    if (e_.model.name == NetworkName::unet && (height % 16 != 0 || width % 16 != 0))
      wrong({key, "model.name"}, "the unet needs a " + key + " of multiples of 16, not " + size);
    if (e_.model.name == NetworkName::small_cnn && least < 16)
      wrong({key}, "small_cnn needs a " + key + " of at least 16 × 16, not " + size);
    if (e_.model.name == NetworkName::densenet121 && least < 29)
      wrong({key}, "densenet121 needs a " + key + " of at least 29 × 29, not " + size);
  }

  // Masks are drawn on the host, and a recorded step is proved bit by bit.
  void graphs() {
    if (!e_.cuda_graphs || !sound({"cuda_graphs"})) return;
    if (sound({"deterministic"}) && !e_.deterministic)
      wrong({"cuda_graphs", "deterministic"}, "cuda_graphs needs deterministic: true");
    if (sound({"model.name", "model.dropout"}) && e_.model.name == NetworkName::small_cnn && e_.model.dropout > 0)
      wrong({"cuda_graphs", "model.dropout"},
            "cuda_graphs cannot record dropout, which is drawn anew for every step; set model.dropout: 0");
  }

  // What is kept can be flipped, turned, normalised and mixed, and no more.
  void cache() {
    if (e_.data.loader.cache != PictureKeep::device || !sound({"data.loader.cache"})) return;
    for (const std::string& key : pixel_augmentations(e_.data.augment))
      if (sound({key}))
        wrong({"data.loader.cache", key}, "data.loader.cache: device keeps pictures beyond the place where " + key +
                                              " acts; leave one of the two out");
  }

  /// Number of classes, where the configuration alone tells it.
  std::optional<int64_t> classes() const {
    const DataOptions& d = e_.data;
    if (!sound({"data.format", "data.classes", "data.csv.labels", "data.synthetic.classes", "task",
                "data.tfrecord.names", "data.webdataset.names"}))
      return std::nullopt;
    if (!d.classes.empty()) return static_cast<int64_t>(d.classes.size());
    if (d.format == DataFormat::nih_cxr14 || d.format == DataFormat::chexpert) return 14;
    if (d.format == DataFormat::csv && !d.csv.labels.empty()) return static_cast<int64_t>(d.csv.labels.size());
    if (d.format == DataFormat::synthetic) return d.synthetic.classes;
    if (has_mask_files(d) && sound({"data.image_mask.mask_values"}) && mask_classes() > 0) return mask_classes();
    if (!record_names(d).empty()) return static_cast<int64_t>(record_names(d).size());
    return std::nullopt;
  }

  int64_t mask_classes() const {
    int64_t most = 0;
    for (const auto& [pixel, number] : e_.data.image_mask.mask_values) most = std::max(most, number);
    return most;
  }

  void masks() {
    if (!has_mask_files(e_.data) || !sound({"data.format", "data.image_mask.mask_values"})) return;
    std::set<int64_t> numbers;
    for (const auto& [pixel, number] : e_.data.image_mask.mask_values) numbers.insert(number);
    if (static_cast<int64_t>(numbers.size()) != mask_classes())
      wrong({"data.image_mask.mask_values"},
            "data.image_mask.mask_values must number its classes 1, 2, … without a gap");
  }

  void outputs() {
    const std::optional<int64_t> known = classes();
    const auto& asked = e_.model.outputs;
    if (known && asked && *known != *asked)
      wrong({"model.outputs"}, "model.outputs is " + std::to_string(*asked) + ", but the data have " +
                                   count_of(*known, "class", "classes"));
    const std::optional<int64_t> outputs = known ? known : asked;
    const auto factors = static_cast<int64_t>(e_.loss.pos_weight.size());
    if (e_.loss.pos_weight_kind == LossOptions::PosWeight::list && outputs && factors != *outputs &&
        loss_in_use(e_) == LossName::bce)
      wrong({"loss.pos_weight"},
            "loss.pos_weight has " + count_of(factors, "factor") + " for " + count_of(*outputs, "output"));
    if (e_.task == Task::multiclass && outputs && *outputs < 2 && sound({"data.format", "model.name"}))
      wrong({"model.outputs", "data.classes", "data.synthetic.classes"}, "task multiclass needs at least 2 classes");
  }

  void batch() {
    const BatchOptions& b = e_.batch;
    const AugmentOptions& a = e_.data.augment;
    if (b.global == 0 && b.per_rank == 1 && sound({"batch.per_rank", "batch.global"}))
      for (const auto& [key, on] :
           {std::pair{"data.augment.mixup", a.mixup > 0}, {"data.augment.cutmix", a.cutmix > 0}})
        if (on && sound({key}))
          wrong({key}, std::string(key) + " mixes the pictures of one batch, and batch.per_rank is 1");
    if (!given("batch.global") || !sound({"batch.global"})) return;
    if (given("batch.per_rank"))
      wrong({"batch.global"},
            "batch.global and batch.per_rank (" + where("batch.per_rank") +
                ") exclude each other; keep one (`batch.per_rank=` after the command takes back what a file sets)");
    if (e_.schedule.scale_with_ranks != RankScaling::none && sound({"schedule.scale_with_ranks"}))
      wrong({"schedule.scale_with_ranks"},
            "schedule.scale_with_ranks must be none with batch.global: the global batch does not grow with the ranks");
    if (sound({"distributed.logical_ranks"}) && b.global < e_.distributed.logical_ranks)
      wrong({"batch.global"}, "batch.global " + std::to_string(b.global) + " is less than one sample for each of " +
                                  count_of(e_.distributed.logical_ranks, "logical rank"));
  }

  void optimizer() {
    const OptimizerOptions& o = e_.optimizer;
    if (o.name == OptimizerName::sgd && o.nesterov && o.momentum <= 0 &&
        sound({"optimizer.momentum", "optimizer.name"}))
      wrong({"optimizer.nesterov"}, "optimizer.nesterov needs optimizer.momentum > 0");
  }

  void device() {
    if (e_.distributed.share_device && e_.distributed.backend != Backend::mpi && sound({"distributed.backend"}))
      wrong({"distributed.share_device"},
            "distributed.share_device needs distributed.backend: mpi, because NCCL refuses two ranks on one GPU");
  }

  void decay() {
    const DecayOptions& d = e_.schedule.decay;
    if (d.name != DecayName::multistep || !sound({"schedule.decay.name", "schedule.decay.at"})) return;
    if (d.at.empty())
      return wrong({"schedule.decay.name"}, "decay multistep needs schedule.decay.at, the list of milestones");
    for (size_t i = 1; i < d.at.size(); ++i)
      if (d.at[i].unit != d.at[0].unit || d.at[i].amount <= d.at[i - 1].amount)
        return wrong({"schedule.decay.at"}, "schedule.decay.at must ascend, all in epochs or all in steps");
  }

  void monitors() {
    monitor("checkpoint.best.monitor", e_.checkpoint.best_monitor);
    if (e_.schedule.decay.name == DecayName::plateau) monitor("schedule.decay.monitor", e_.schedule.decay.monitor);
  }

  void monitor(const std::string& key, const std::string& name) {
    if (!given(key) || !given("data.format") ||
        !sound({key, "data.format", "task", "model.name", "data.classes", "data.csv.labels",
                "data.image_mask.mask_values"}))
      return;
    const auto classes = class_names(e_);
    Columns columns = columns_of(e_.task, classes);
    std::string shown = join(columns.names, ", ");
    const std::string& stem = columns.class_stem;
    if (!stem.empty()) {
      shown += ", " + stem + "CLASS";
      if (!classes && name.starts_with(stem) && name.size() > stem.size()) return;  // the data will tell
      for (const std::string& known : classes.value_or(std::vector<std::string>{}))
        columns.names.push_back(stem + known);
    }
    if (std::find(columns.names.begin(), columns.names.end(), name) != columns.names.end()) return;
    const std::string near = nearest_word(name, columns.names);
    wrong({key}, key + " '" + name + "' is no column of epochs.csv for task " + task_name(e_.task) +
                     (near.empty() ? "" : " (did you mean '" + near + "'?)") + "; there are " + shown);
  }

  Experiment& e_;
  const std::map<std::string, Place>& given_;
  const std::set<std::string>& bad_;
  Place nowhere_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> find_conflicts(Experiment& experiment, const std::map<std::string, Place>& given,
                                    const std::set<std::string>& bad, const Place& nowhere) {
  return Checker(experiment, given, bad, nowhere).all();
}

}  // namespace dtrain
