// What follows from a metric's row.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "dtrain/base/error.hpp"
#include "dtrain/metrics/measure.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;

using Names = std::vector<std::string>;

namespace {

// Two made-up metrics, this one a number.
const Metric kShare = {
    .name = "share",
    .uses = {{Task::multilabel, 1}, {Task::multiclass, 3}},
    .of_part =
        [](const Predictions& p, bool each_class, const Groups*) {
          MetricValues values;
          values.all.value = 0.25;
          if (each_class) values.classes.assign(p.outputs, {0.25, {}});
          return values;
        },
};

// Better when smaller: how far the mean probability of a class lies from its frequency.
const Metric kCalibration = {
    .name = "calibration",
    .uses = {{Task::multilabel, 2}, {Task::multiclass}},
    .larger_is_better = false,
    .digits = 2,
    .of_part =
        [](const Predictions& p, bool each_class, const Groups*) {
          MetricValues values;
          double sum = 0;
          for (size_t k = 0; k < p.outputs; ++k) {
            double away = 0;
            for (size_t i = 0; i < p.samples(); ++i) away += p.score(i, k) - static_cast<double>(p.label(i, k));
            away = std::abs(away) / static_cast<double>(p.samples());
            sum += away;
            if (each_class) values.classes.push_back({away, {}});
          }
          values.all.value = sum / static_cast<double>(p.outputs);
          return values;
        },
    .of_training = [](const TrainingCounts& counts) { return counts.mean_loss / 2; },
};

const Metrics kMadeUp = {&kShare, &kCalibration};

// Those of `names` that `old` has too are all of it, in its order: what came later stands among them, and moves none.
void check_keeps(const Names& names, const Names& old) {
  Names kept;
  std::ranges::copy_if(names, std::back_inserter(kept), [&](const auto& n) { return std::ranges::count(old, n) > 0; });
  CHECK(kept == old);
}

}  // namespace

TEST_CASE("epochs.csv has the columns that it has always had") {
  const auto columns = [](Task task, const Names& classes) {
    return metric_columns(task, classes.size()).with(classes);
  };
  check_keeps(columns(Task::multilabel, {"Mass"}),
              {"valid_auroc", "valid_average_precision", "valid_auroc_Mass", "valid_average_precision_Mass"});
  check_keeps(columns(Task::multiclass, {"a", "b"}),
              {"train_accuracy", "valid_accuracy", "valid_auroc", "valid_average_precision"});
  check_keeps(
      columns(Task::multiclass, {"a", "b", "c"}),
      {"train_accuracy", "valid_accuracy", "valid_auroc", "valid_average_precision", "valid_auroc_a", "valid_auroc_b",
       "valid_auroc_c", "valid_average_precision_a", "valid_average_precision_b", "valid_average_precision_c"});
  check_keeps(columns(Task::segmentation, {"cell"}), {"valid_iou", "valid_iou_image", "valid_dice"});
  check_keeps(columns(Task::segmentation, {"cell", "wall"}),
              {"valid_iou", "valid_iou_image", "valid_dice", "valid_iou_cell", "valid_iou_wall", "valid_dice_cell",
               "valid_dice_wall"});

  // A class has a value of its own only where it says more than the whole.
  const auto check_lacks = [](const Names& names, const Names& absent) {
    for (const std::string& name : absent) CHECK(std::ranges::count(names, name) == 0);
  };
  check_lacks(columns(Task::multiclass, {"a", "b"}),
              {"valid_auroc_a", "valid_average_precision_a", "valid_accuracy_a"});
  check_lacks(columns(Task::multiclass, {"a", "b", "c"}), {"valid_accuracy_a"});
  check_lacks(columns(Task::segmentation, {"cell"}), {"valid_iou_cell"});
  check_lacks(columns(Task::segmentation, {"cell", "wall"}), {"valid_iou_image_cell", "valid_hausdorff95_px"});
}

TEST_CASE("every column can be watched, and so can both losses") {
  for (const Task task : {Task::multilabel, Task::multiclass, Task::segmentation}) {
    Names columns = metric_columns(task, 3).with({"a", "b", "c"});
    for (std::string& column : columns) column.replace(column.find('_'), 1, ".");
    columns.insert(columns.end(), {"train.loss", "valid.loss"});
    Names monitors = metric_monitors(task, 3).with({"a", "b", "c"});
    std::ranges::sort(columns);
    std::ranges::sort(monitors);
    CHECK(monitors == columns);
  }
}

TEST_CASE("which weights are best by default is what it was") {
  CHECK(default_monitor(Task::multilabel) == "valid.auroc");
  CHECK(default_monitor(Task::multiclass) == "valid.accuracy");
  CHECK(default_monitor(Task::segmentation) == "valid.iou");
}

TEST_CASE("a loss is better when smaller, whatever classes are called") {
  CHECK_FALSE(larger_is_better("valid.loss"));
  CHECK_FALSE(larger_is_better("train.loss"));
  for (const char* monitor : {"train.accuracy", "valid.auroc_loss", "valid.iou_image", "valid.dice"})
    CHECK(larger_is_better(monitor));
}

TEST_CASE("figures of averaged weights have names of their own, and the same sense") {
  CHECK(averaged_name("valid_loss") == "valid_ema_loss");
  CHECK(averaged_name("valid.auroc_Mass") == "valid.ema_auroc_Mass");
  CHECK_THROWS_AS(averaged_name("train_loss"), InternalError);
  CHECK(is_averaged("valid.ema_auroc"));
  CHECK_FALSE(is_averaged("valid.auroc_ema_"));
  CHECK_FALSE(larger_is_better("valid.ema_loss"));
  CHECK(larger_is_better("valid.ema_auroc"));
  const MetricNames monitors = metric_monitors(Task::multilabel, std::nullopt, kMadeUp);
  CHECK(with_averages(monitors, false).of_all_classes == monitors.of_all_classes);
  const MetricNames both = with_averages(monitors, true);
  CHECK(both.of_all_classes == Names{"train.loss", "train.calibration", "valid.loss", "valid.share",
                                     "valid.calibration", "valid.ema_loss", "valid.ema_share",
                                     "valid.ema_calibration"});
  CHECK(both.class_stems == Names{"valid.share_", "valid.calibration_", "valid.ema_share_", "valid.ema_calibration_"});
}

TEST_CASE("from the rows of metrics follow their columns, monitors, modes, and what is best by default") {
  const auto columns = [](Task task, const Names& classes) {
    return metric_columns(task, classes.size(), kMadeUp).with(classes);
  };
  CHECK(columns(Task::multilabel, {"Mass", "Edema"}) == Names{"train_calibration", "valid_share", "valid_calibration",
                                                              "valid_share_Mass", "valid_share_Edema",
                                                              "valid_calibration_Mass", "valid_calibration_Edema"});
  CHECK(columns(Task::multilabel, {"Mass"}) ==
        Names{"train_calibration", "valid_share", "valid_calibration", "valid_share_Mass"});
  CHECK(columns(Task::multiclass, {"a", "b"}) == Names{"train_calibration", "valid_share", "valid_calibration"});
  CHECK(metric_columns(Task::multiclass, 5, kMadeUp).class_stems == Names{"valid_share_"});
  CHECK(columns(Task::segmentation, {"cell", "wall"}).empty());

  const MetricNames monitors = metric_monitors(Task::multilabel, std::nullopt, kMadeUp);
  CHECK(monitors.of_all_classes ==
        Names{"train.loss", "train.calibration", "valid.loss", "valid.share", "valid.calibration"});
  CHECK(monitors.class_stems == Names{"valid.share_", "valid.calibration_"});
  CHECK(default_monitor(Task::multilabel, kMadeUp) == "valid.share");
  CHECK(default_monitor(Task::multilabel, {&kCalibration, &kShare}) == "valid.calibration");
  CHECK_THROWS_AS(default_monitor(Task::segmentation, kMadeUp), InternalError);
  CHECK_FALSE(larger_is_better("valid.calibration", kMadeUp));
  CHECK_FALSE(larger_is_better("train.calibration", kMadeUp));
  CHECK_FALSE(larger_is_better("valid.calibration_Mass", kMadeUp));
  CHECK(larger_is_better("valid.share_calibration", kMadeUp));
}

TEST_CASE("metrics are measured under the names of their columns") {
  Predictions p;
  p.outputs = 2;
  p.loss = {0, 0};
  p.scores = {0.5, 1, 0.5, 0.5};
  p.labels = {1, 1, 1, 1};
  const Names classes = {"Mass", "Edema"};
  const std::vector<NamedValue> values = measure(Task::multilabel, classes, p, std::nullopt, kMadeUp);
  Names names;
  for (const NamedValue& one : values) names.push_back("valid_" + one.name);
  const Names columns = metric_columns(Task::multilabel, 2, kMadeUp).with(classes);
  CHECK(names == Names(columns.begin() + 1, columns.end()));  // after that of the training part
  CHECK(test::named(values, "share_Edema").measured.value == 0.25);
  CHECK(test::named(values, "calibration").measured.value == 0.375);
  CHECK(test::named(values, "calibration").metric->digits == 2);
  CHECK(test::named(values, "calibration_Mass").measured.value == 0.5);
  CHECK(test::named(values, "calibration_Edema").measured.value == 0.25);
}

TEST_CASE("a class whose value would have another figure's name is refused by name") {
  const auto refuse = [](const Names& classes) { require_distinct_names(Task::segmentation, classes); };
  CHECK_THROWS_MATCHES(refuse({"cell", "image"}), ConfigError,
                       Catch::Message("a class is called 'image', so its iou would have the name of another figure, "
                                      "iou_image; give the class another name"));
  CHECK_NOTHROW(refuse({"cell", "images"}));
  CHECK_NOTHROW(refuse({"image"}));  // a single class has no columns of its own
  CHECK_NOTHROW(require_distinct_names(Task::multilabel, {"cell", "image"}));
}

TEST_CASE("every metric and the loss have what their rows promise") {
  for (const Metric* metric : all_metrics()) {
    INFO(metric->name);
    CHECK(metric->of_part != nullptr);
    CHECK_FALSE(metric->uses.empty());
    CHECK(row_named(all_metrics(), metric->name) == metric);
    for (const Metric::Use& use : metric->uses) CHECK((metric->of_sample == nullptr || use.task == Task::segmentation));
  }
  const TrainingCounts counts{8, 6, 0.25};
  CHECK(loss_metric().of_training(counts) == 0.25);
  CHECK(row_named(all_metrics(), "accuracy")->of_training(counts) == 0.75);
  Predictions p;
  p.loss = {1, 2};
  CHECK(loss_metric().of_part(p, false, nullptr).all.value == 1.5);
}
