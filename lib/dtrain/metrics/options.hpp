#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/rows.hpp"
#include "dtrain/base/task.hpp"

namespace dtrain {

struct Groups;
struct MetricPairs;
struct MetricValues;
struct PixelCounts;
struct Predictions;

/// What an epoch of training has counted by its end, each sample at the weights of its own step.
struct TrainingCounts {
  int64_t samples = 0;   ///< at least 1
  int64_t correct = 0;   ///< multiclass: samples whose most probable class was the right one
  double mean_loss = 0;  ///< over the samples
};

/// A metric as the rest of the program knows it. Its file defines one, all_metrics.cpp lists them. From the rows follow
/// the columns of epochs.csv, the names that a monitor may have, which of them decides by default which weights are
/// best and which way is up, eval's table and JSON, and the columns of predictions_<split>.csv for masks.
struct Metric {
  /// A task that it is for.
  struct Use {
    Task task;
    /// From this many classes on, each class has its own value and column besides the one for all; 0: never.
    size_t each_class_from = 0;
  };

  /// Its column is valid_<name>, that of a class valid_<name>_<class>, that of the training part train_<name>.
  std::string name;
  std::vector<Use> uses = {};
  bool larger_is_better = true;
  /// Whether training has it too: a column of epochs.csv, and a monitor. Else eval alone does.
  bool of_epochs = true;
  /// Where eval shows people the values of single classes: a line each, or columns of one table that has a line per
  /// class. Files have all of them in the same way.
  bool in_table = false;
  int digits = 4;              ///< after the point, for people; files have all digits
  std::string undefined = "";  ///< why there may be no value, such as "this part lacks …"; "" if there always is one

  /// Its values over a whole part, which is not empty. each_class: those of the single classes are wanted, else
  /// MetricValues::classes stays empty. groups: of the samples, with which each value gets its confidence; null, as in
  /// training, if no confidence is wanted.
  MetricValues (*of_part)(const Predictions&, bool each_class, const Groups* groups) = nullptr;
  /// How far its values are apart for two networks and the same samples; null: a bootstrap tells (paired.hpp).
  MetricPairs (*of_pair)(const Predictions& a, const Predictions& b, bool each_class, const Groups&) = nullptr;
  /// What a sample adds to it depends on the others' scores, so that no group can be judged alone.
  bool of_ranks = false;
  /// Its value over the training part, which is never predicted as a whole; null: training has no column of it.
  double (*of_training)(const TrainingCounts&) = nullptr;
  /// Segmentation: its value for one sample, all classes together; null: predictions_<split>.csv has no column of it.
  double (*of_sample)(const PixelCounts&) = nullptr;

  /// How it is used for this task; null if it is not.
  const Use* use(Task task) const;
  /// Whether single classes have their own values. For an unknown number of classes: whether they may have.
  bool has_classes(Task task, std::optional<size_t> classes) const;
};

using Metrics = RowList<Metric>;

/// All of them. For a task their order is that of its columns, and the first one decides by default which weights are
/// best.
const Metrics& all_metrics();

/// Those that training has too (Metric::of_epochs), in the same order.
const Metrics& epoch_metrics();

/// The loss is watched like a metric, in both parts and for every task. Its two columns are among the fixed ones of
/// epochs.csv (runlog/run_log.hpp), so it is not one of epoch_metrics().
const Metric& loss_metric();

/// Names of a task's values: first those of all classes together, then those of single classes.
struct MetricNames {
  std::vector<std::string> of_all_classes;  ///< auroc
  std::vector<std::string> class_stems;     ///< auroc_, of each metric whose classes have values; the class follows

  /// All of them: auroc, auroc_Mass, auroc_Hernia.
  std::vector<std::string> with(const std::vector<std::string>& classes) const;
};

/// In eval's table and JSON. classes: their number; nothing: not known yet, so all stems that are possible are
/// included.
MetricNames metric_names(Task task, std::optional<size_t> classes, const Metrics& metrics = all_metrics());

/// Throws ConfigError where the value of a class would have the name of another: iou_image is a metric, and would be
/// the IoU of a class `image`.
void require_distinct_names(Task task, const std::vector<std::string>& classes, const Metrics& metrics = all_metrics());

/// In epochs.csv: train_accuracy, valid_accuracy, valid_auroc; valid_auroc_.
MetricNames metric_columns(Task task, std::optional<size_t> classes, const Metrics& metrics = epoch_metrics());

/// As a monitor writes the columns, with those of the loss: train.loss, valid.loss, valid.auroc; valid.auroc_.
MetricNames metric_monitors(Task task, std::optional<size_t> classes, const Metrics& metrics = epoch_metrics());

/// The name of the same figure of the averaged weights (`ema`): valid_auroc → valid_ema_auroc, valid.loss →
/// valid.ema_loss. `name`: of a figure of the validation part; others are not taken.
std::string averaged_name(const std::string& name);
/// Whether a monitor is such a name.
bool is_averaged(const std::string& monitor);
/// `names`, and where `averaged` after them those of the averaged weights.
MetricNames with_averages(MetricNames names, bool averaged);

/// The monitor that decides which weights are best where the configuration names none: valid.auroc.
std::string default_monitor(Task task, const Metrics& metrics = epoch_metrics());

/// Whether larger is better for a monitor of metric_monitors(), classes and averaged weights included; true for
/// anything else.
bool larger_is_better(const std::string& monitor, const Metrics& metrics = epoch_metrics());

}  // namespace dtrain
