#include "dtrain/config/checks.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/spelling.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/format_texts.hpp"
#include "dtrain/config/schema.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {

namespace {

Task task_of_format(const Experiment& e) {
  return natural_task(e.data).value_or(e.model.kind->per_pixel ? Task::segmentation : Task::multilabel);
}

// The classes, as far as the configuration names them: their names are columns.
std::optional<std::vector<std::string>> class_names(const Experiment& e) {
  const DataOptions& d = e.data;
  if (!has_mask_files(d) && !d.classes.empty()) return d.classes;
  return d.format->class_names == nullptr ? std::nullopt : d.format->class_names(d);
}

}  // namespace

void fill_defaults(Experiment& e, const std::set<std::string>& given) {
  if (e.task == Task::from_format) e.task = task_of_format(e);
  ImageOptions& image = e.data.image;
  const int64_t named = image.channels;
  if (!given.contains("data.image.files") && !given.contains("data.image.slices")) take_own_channels(e.data);
  image.channels = given.contains("data.image.channels") ? named
                   : image.is_stacked()                  ? image.stacked_channels()
                                                         : image_channels_of(e.model);
  if (image.mean.empty()) image.mean = usual_mean(image.channels);
  if (image.std.empty()) image.std = usual_std(image.channels);
  if (!given.contains("schedule.scale_with_ranks") && e.batch.global > 0)
    e.schedule.scale_with_ranks = RankScaling::none;
  CheckpointOptions& best = e.checkpoint;
  if (best.best_monitor.empty()) best.best_monitor = default_monitor(e.task);
  if (!given.contains("checkpoint.best.mode")) best.best_is_max = larger_is_better(best.best_monitor);
  e.schedule.decay.monitor_is_max = larger_is_better(e.schedule.decay.monitor);
  if (e.early_stop.monitor.empty()) e.early_stop.monitor = best.best_monitor;
  e.early_stop.monitor_is_max = larger_is_better(e.early_stop.monitor);
  if (!given.contains("output.dir"))
    e.output_dir = (std::filesystem::current_path() / e.output_dir).lexically_normal().string();
  if (e.data.split.names("train") && !given.contains("data.split.valid")) e.data.split.valid = 0;
  e.data.split.given =
      std::any_of(given.begin(), given.end(), [](const std::string& key) { return key.starts_with("data.split."); });
}

namespace {

class Checker final : public KeyReport {
 public:
  Checker(Experiment& e, const std::map<std::string, Place>& given, const std::set<std::string>& bad,
          const Place& nowhere)
      : e_(e), given_(given), bad_(bad), nowhere_(nowhere) {}

  std::vector<Problem> all() {
    problems_ = keys_without_effect(e_, given_, bad_);
    for (Problem& idle : values_without_effect(e_, given_, bad_)) problems_.push_back(std::move(idle));
    name();
    required();
    task();
    loss();
    own_keys();
    split();
    image();
    cache();
    graphs();
    outputs();
    batch();
    optimizer();
    device();
    decay();
    length();
    monitors();
    return std::move(problems_);
  }

 private:
  bool given(const std::string& key) const override { return given_.contains(key); }

  bool sound(const std::vector<std::string>& keys) const override {
    return std::none_of(keys.begin(), keys.end(), [&](const std::string& key) { return bad_.contains(key); });
  }

  std::string where(const std::string& key) const override {
    const auto place = given_.find(key);
    return place == given_.end() ? "the default" : place->second.origin();
  }

  // Set by the user: what a run has stored was accepted by the version that wrote it.
  bool asked(const std::string& key) const {
    const auto place = given_.find(key);
    return place != given_.end() && !place->second.source->of_a_run && sound({key});
  }

  // Set beside epochs, or later. A trial that shortens a configuration's run does not have to change its schedule.
  bool asked_for_this_length(const std::string& key) const {
    if (!asked(key)) return false;
    const auto epochs = given_.find("epochs");
    const std::string& origin = given_.at(key).source->origin;
    return epochs == given_.end() || epochs->second.source->origin == origin || origin == "command line";
  }

  void wrong(const std::vector<std::string>& keys, const std::string& sentence) override {
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
      wrong({"name"}, "name holds characters that control a terminal or the direction of writing: '" + name + "'");
  }

  void required() {
    if (!sound({"data.format"})) return;
    if (!given("data.format")) {
      problems_.push_back({nowhere_, "data.format is missing: " + all_formats()});
      return;
    }
    const DataFormat& format = *e_.data.format;
    if (!format.generated && !given("data.root"))
      wrong({"data.format"}, "data.root is missing: the folder of the data set");
    if (format.label_file == DataFormat::LabelFile::required && !given("data.labels"))
      wrong({"data.format"}, "data.labels is missing: the label file, under data.root");
  }

  // The format allows the task, and the network serves it.
  void task() {
    if (!sound({"data.format", "task", "model.name"}) || !given("data.format")) return;
    std::vector<Task> tasks = e_.data.format->tasks(e_.data);
    std::sort(tasks.begin(), tasks.end());
    if (!tasks.empty() && std::find(tasks.begin(), tasks.end(), e_.task) == tasks.end()) {
      std::vector<std::string> names;
      for (const Task task : tasks) names.emplace_back(name_of(task));
      return wrong({"task"}, std::string("task ") + name_of(e_.task) + " does not fit data.format, which is for " +
                                 join_last(names, "or") +
                                 (e_.task == Task::segmentation
                                      ? "; for pictures with masks set data.format=" + formats_text(always_masks, "or")
                                      : "; leave task out, or choose another data.format"));
    }
    const NetworkKind& network = *e_.model.kind;
    if (network.serves(e_.task)) return;
    if (network.per_pixel) {
      const auto fit = names_where(networks(), [&](const NetworkKind& kind) { return kind.serves(e_.task); });
      return wrong({"model.name"}, "model.name " + network.name + " is for segmentation, but the task is " +
                                       name_of(e_.task) + "; choose " + join_last(fit, "or"));
    }
    const auto names = names_where(networks(), [](const NetworkKind& kind) { return kind.per_pixel; });
    wrong({"model.name", "task", "data.format"},
          "segmentation needs model.name " + join_last(names, "or") +
              (names.size() == 1 ? ", the only network that predicts per pixel" : ", which predict per pixel"));
  }

  void loss() {
    if (!sound({"loss.name", "data.format", "task"}) || !given("data.format")) return;
    const std::string text = wrong_task(loss_in_use(e_.loss, e_.task), e_.task);
    if (!text.empty()) wrong({"loss.name"}, text);
  }

  // Checks that only the format knows for its keys.
  void own_keys() {
    if (sound({"data.format"}) && e_.data.format->check != nullptr) e_.data.format->check(e_.data, e_.task, *this);
  }

  void split() {
    const SplitOptions& s = e_.data.split;
    if (!s.files.empty() && !s.folders.empty())
      wrong({"data.split.folders.train", "data.split.folders.valid", "data.split.folders.test"},
            "data.split.folders and data.split.files cannot be combined; keep one");
    if (sound({"data.split.valid", "data.split.test"}) && s.valid + s.test >= 1)
      wrong({"data.split.test", "data.split.valid"}, "data.split.valid " + shortest(s.valid) + " and data.split.test " +
                                                         shortest(s.test) +
                                                         " leave nothing for training; their sum must be less than 1");
  }

  void image() {
    const ImageOptions& i = e_.data.image;
    check_channels(i, *this);
    in_units_of_one("data.image.mean", i.mean);
    in_units_of_one("data.image.std", i.std);
    if (!sound({"data.image.size", "data.image.window", "model.name", "model.levels", "model.encoder"})) return;
    const auto text = [](int64_t height, int64_t width) {
      return std::to_string(height) + " × " + std::to_string(width);
    };
    if (i.window_height > i.height || i.window_width > i.width)
      return wrong({"data.image.window", "data.image.size"},
                   "data.image.window " + text(i.window_height, i.window_width) + " is more than data.image.size " +
                       text(i.height, i.width));
    const int64_t height = i.seen_height(), width = i.seen_width();
    const std::string key = i.window_height > 0 ? "data.image.window" : "data.image.size";
    if (e_.data.augment.rot90 > 0 && height != width)
      wrong({"data.augment.rot90"}, "data.augment.rot90 needs a square " + key + ", not " + text(height, width));
    const std::string unfit = wrong_size(e_.model, height, width, key);
    if (!unfit.empty()) wrong({key, "model.name", "model.levels", "model.encoder"}, unfit);
  }

  // Other programs give them for pixels of 0 to 255.
  void in_units_of_one(const std::string& key, const std::vector<double>& values) {
    if (!asked(key) || std::none_of(values.begin(), values.end(), [](double value) { return value > 1; })) return;
    std::vector<std::string> divided;
    for (const double value : values) divided.push_back(shortest(std::round(value / 255 * 1e4) / 1e4));
    wrong({key}, key +
                     " is for pixels in [0, 1], which no value above 1 fits; divide those for pixels of 0 to 255 by " +
                     "255: " + shell_word(key + "=[" + join(divided, ", ") + "]"));
  }

  // Random numbers for each step are drawn on the host, and a recorded step is proved bit by bit.
  void graphs() {
    if (!e_.cuda_graphs || !sound({"cuda_graphs"})) return;
    if (sound({"deterministic"}) && !e_.deterministic)
      wrong({"cuda_graphs", "deterministic"}, "cuda_graphs needs deterministic: true");
    const std::string random = random_key_of(e_.model), key = "model." + random;
    if (!random.empty() && sound({"model.name", key}))
      wrong({"cuda_graphs", key},
            "cuda_graphs cannot record " + random + ", which is drawn again for every step; set " + key + ": 0");
  }

  // Cached pictures can be flipped, turned, normalised and mixed, and nothing else.
  void cache() {
    if (e_.data.loader.cache != PictureKeep::device || !sound({"data.loader.cache"})) return;
    for (const std::string& key : pixel_augmentations(e_.data.augment))
      if (sound({key}))
        wrong({"data.loader.cache", key}, "data.loader.cache: device keeps pictures after the point where " + key +
                                              " is applied; leave one of the two out");
  }

  /// Number of classes, if it follows from the configuration alone.
  std::optional<int64_t> classes() const {
    const DataOptions& d = e_.data;
    if (!sound(class_keys({"data.format", "data.classes", "task"}))) return std::nullopt;
    if (!d.classes.empty()) return static_cast<int64_t>(d.classes.size());
    if (d.format->class_count != nullptr) return d.format->class_count(d);
    const auto names = d.format->class_names == nullptr ? std::nullopt : d.format->class_names(d);
    return names ? std::optional(static_cast<int64_t>(names->size())) : std::nullopt;
  }

  void outputs() {
    const std::optional<int64_t> known = classes();
    const auto& asked = e_.model.outputs;
    if (known && asked && *known != *asked)
      wrong({"model.outputs"}, "model.outputs is " + std::to_string(*asked) + ", but the data have " +
                                   count_of(*known, "class", "classes"));
    const std::optional<int64_t> outputs = known ? known : asked;
    if (outputs) weights("pos_weight", e_.loss.pos_weight, *outputs);
    if (outputs) weights("class_weight", e_.loss.class_weight, logits_for(e_.loss, e_.task, *outputs));
    if (e_.task != Task::multiclass || !outputs || *outputs >= 2 || !sound({"data.format", "model.name"})) return;
    std::vector<std::string> keys = {"model.outputs", "data.classes"};
    for (const std::string& key : e_.data.format->class_keys) keys.push_back(key);
    wrong(keys, "task multiclass needs at least 2 classes");
  }

  void weights(const std::string& key, const OutputWeights& weights, int64_t outputs) {
    const auto factors = static_cast<int64_t>(weights.list.size());
    if (weights.from == OutputWeights::From::list && factors != outputs && reads(loss_in_use(e_.loss, e_.task), key))
      wrong({"loss." + key},
            "loss." + key + " has " + count_of(factors, "factor") + " for " + count_of(outputs, "output"));
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
                ") cannot be combined; keep one (`batch.per_rank=` after the command undoes what a file sets)");
    if (e_.schedule.scale_with_ranks != RankScaling::none && sound({"schedule.scale_with_ranks"}))
      wrong({"schedule.scale_with_ranks"},
            "schedule.scale_with_ranks must be none with batch.global: the global batch does not grow with the ranks");
    if (sound({"distributed.logical_ranks"}) && b.global < e_.distributed.logical_ranks)
      wrong({"batch.global"}, "batch.global " + std::to_string(b.global) + " is less than one sample for each of " +
                                  count_of(e_.distributed.logical_ranks, "logical rank"));
  }

  void optimizer() {
    const OptimizerOptions& o = e_.optimizer;
    if (reads(*o.kind, "nesterov") && o.nesterov && o.momentum <= 0 && sound({"optimizer.momentum", "optimizer.name"}))
      wrong({"optimizer.nesterov"}, "optimizer.nesterov needs optimizer.momentum > 0");
    if (const std::string idle = wrong_group(o); !idle.empty() && sound({"optimizer.freeze_until"}))
      wrong({"optimizer.groups"}, idle);
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
    const Duration& last = d.at.back();
    if (last.unit == Duration::Unit::epochs && last.amount >= static_cast<double>(e_.epochs) && sound({"epochs"}) &&
        asked_for_this_length("schedule.decay.at"))
      wrong({"schedule.decay.at"}, "schedule.decay.at has a milestone at " + last.text() + ", but the run has " +
                                       count_of(e_.epochs, "epoch") +
                                       ": it would never be reached; leave out what lies beyond, raise epochs, or set "
                                       "schedule.decay=null for a constant rate");
  }

  // Decays and stops that come after the end of the run. Lengths in steps are known once the data are read (Schedule).
  void length() {
    if (!sound({"epochs"})) return;
    const DecayOptions& d = e_.schedule.decay;
    const Duration& thaw = e_.optimizer.freeze_until;
    const auto beyond = [&](const Duration& at) {
      return at.unit == Duration::Unit::epochs && at.amount >= static_cast<double>(e_.epochs);
    };
    const auto never = [&](const std::string& key, const std::string& length, const std::string& so) {
      wrong({key}, key + " is " + length + ", but the run has " + count_of(e_.epochs, "epoch") + ": " + so);
    };
    if (d.name == DecayName::step && asked_for_this_length("schedule.decay.every") && beyond(d.every))
      never("schedule.decay.every", d.every.text(),
            "the rate would never fall; shorten it, raise epochs, or set schedule.decay=null for a constant rate");
    if (asked_for_this_length("early_stop.patience") && e_.early_stop.patience >= e_.epochs)
      never("early_stop.patience", count_of(e_.early_stop.patience, "epoch"),
            "it could never stop early; lower it, raise epochs, or set early_stop=none");
    const bool freezes = std::ranges::any_of(e_.optimizer.groups, &ParameterGroup::freeze);
    if (freezes && asked_for_this_length("optimizer.freeze_until") && beyond(thaw))
      never("optimizer.freeze_until", thaw.text(),
            "frozen groups would never train; shorten it, raise epochs, or leave it out");
  }

  void monitors() {
    const CheckpointOptions& best = e_.checkpoint;
    if (asked("checkpoint.best.mode") && sound({"checkpoint.best.monitor", "task"}) &&
        best.best_is_max != larger_is_better(best.best_monitor))
      wrong({"checkpoint.best.mode"}, std::string("checkpoint.best.mode ") + (best.best_is_max ? "max" : "min") +
                                          " would keep the worst weights: of " + best.best_monitor + " the " +
                                          (best.best_is_max ? "smallest" : "largest") + " is best; write " +
                                          (best.best_is_max ? "min" : "max") + " or leave the key out");
    monitor("checkpoint.best.monitor", e_.checkpoint.best_monitor);
    if (e_.schedule.decay.name == DecayName::plateau) monitor("schedule.decay.monitor", e_.schedule.decay.monitor);
    if (e_.early_stop.patience > 0) monitor("early_stop.monitor", e_.early_stop.monitor);
  }

  void monitor(const std::string& key, const std::string& name) {
    if (!given(key) || !given("data.format") ||
        !sound(class_keys({key, "data.format", "task", "model.name", "data.classes"})))
      return;
    const auto classes = class_names(e_);
    const MetricNames monitors = with_averages(
        metric_monitors(e_.task, classes ? std::optional(classes->size()) : std::nullopt), e_.ema.decay > 0);
    std::string shown = join(monitors.of_all_classes, ", ");
    for (const std::string& stem : monitors.class_stems) {
      shown += ", " + stem + "CLASS";
      if (!classes && name.starts_with(stem) && name.size() > stem.size()) return;  // known once the data are read
    }
    const std::vector<std::string> names = monitors.with(classes.value_or(std::vector<std::string>{}));
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const std::string near = nearest_word(name, names);
    wrong({key}, key + " '" + name + "' is not a column of epochs.csv for task " + name_of(e_.task) +
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
