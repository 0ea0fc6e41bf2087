// What follows from a metric's row.
#include <algorithm>
#include <cmath>

#include "dtrain/metrics/measure.hpp"
#include "support/catch.hpp"

using namespace dtrain;

using Names = std::vector<std::string>;

namespace {

// A made-up metric that is better when smaller: how far the mean probability of a class lies from its frequency.
Metric calibration() {
  return {
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
}

Metrics with_calibration(bool first) {
  Metrics metrics = all_metrics();
  metrics.insert(first ? metrics.begin() : metrics.end(), calibration());
  return metrics;
}

}  // namespace

TEST_CASE("columns of epochs.csv are those that it has always had") {
  const auto columns = [](Task task, const Names& classes) {
    return metric_columns(task, classes.size()).with(classes);
  };
  CHECK(columns(Task::multilabel, {"Mass"}) ==
        Names{"valid_auroc", "valid_average_precision", "valid_auroc_Mass", "valid_average_precision_Mass"});
  CHECK(columns(Task::multiclass, {"a", "b"}) ==
        Names{"train_accuracy", "valid_accuracy", "valid_auroc", "valid_average_precision"});
  CHECK(columns(Task::multiclass, {"a", "b", "c"}) == Names{"train_accuracy", "valid_accuracy", "valid_auroc",
                                                            "valid_average_precision", "valid_auroc_a", "valid_auroc_b",
                                                            "valid_auroc_c", "valid_average_precision_a",
                                                            "valid_average_precision_b", "valid_average_precision_c"});
  CHECK(columns(Task::segmentation, {"cell"}) == Names{"valid_iou", "valid_iou_image", "valid_dice"});
  CHECK(columns(Task::segmentation, {"cell", "wall"}) ==
        Names{"valid_iou", "valid_iou_image", "valid_dice", "valid_iou_cell", "valid_iou_wall"});
}

TEST_CASE("monitors are the columns and the losses, and the task's first metric is the default one") {
  const MetricNames unknown = metric_monitors(Task::multiclass, std::nullopt);
  CHECK(unknown.of_all_classes == Names{"train.loss", "train.accuracy", "valid.loss", "valid.accuracy", "valid.auroc",
                                        "valid.average_precision"});
  CHECK(unknown.class_stems == Names{"valid.auroc_", "valid.average_precision_"});
  CHECK(metric_monitors(Task::multiclass, 2).class_stems.empty());
  CHECK(metric_monitors(Task::multilabel, 1).with({"Mass"}) == Names{"train.loss", "valid.loss", "valid.auroc",
                                                                     "valid.average_precision", "valid.auroc_Mass",
                                                                     "valid.average_precision_Mass"});
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

TEST_CASE("from the row of a new metric follow its columns, monitors, mode, and what is best by default") {
  const Metrics last = with_calibration(false);
  CHECK(metric_columns(Task::multilabel, 2, last).with({"Mass", "Edema"}) ==
        Names{"train_calibration", "valid_auroc", "valid_average_precision", "valid_calibration", "valid_auroc_Mass",
              "valid_auroc_Edema", "valid_average_precision_Mass", "valid_average_precision_Edema",
              "valid_calibration_Mass", "valid_calibration_Edema"});
  CHECK(metric_columns(Task::multilabel, 1, last).class_stems == Names{"valid_auroc_", "valid_average_precision_"});
  CHECK(metric_columns(Task::multiclass, 5, last).class_stems == Names{"valid_auroc_", "valid_average_precision_"});
  CHECK(metric_columns(Task::segmentation, 2, last).of_all_classes ==
        metric_columns(Task::segmentation, 2).of_all_classes);
  CHECK(metric_monitors(Task::multilabel, std::nullopt, last).class_stems ==
        Names{"valid.auroc_", "valid.average_precision_", "valid.calibration_"});
  CHECK(default_monitor(Task::multilabel, last) == "valid.auroc");
  CHECK(default_monitor(Task::multilabel, with_calibration(true)) == "valid.calibration");
  CHECK(default_monitor(Task::segmentation, with_calibration(true)) == "valid.iou");
  CHECK_FALSE(larger_is_better("valid.calibration", last));
  CHECK_FALSE(larger_is_better("train.calibration", last));
  CHECK_FALSE(larger_is_better("valid.calibration_Mass", last));
  CHECK(larger_is_better("valid.auroc_calibration", last));
}

TEST_CASE("a new metric is measured under the names of its columns") {
  Predictions p;
  p.outputs = 2;
  p.loss = {0, 0};
  p.scores = {0.5, 1, 0.5, 0.5};
  p.labels = {1, 1, 1, 1};
  const Metrics metrics = with_calibration(false);
  const Names classes = {"Mass", "Edema"};
  const std::vector<NamedValue> values = measure(Task::multilabel, classes, p, std::nullopt, metrics);
  Names names;
  for (const NamedValue& one : values) names.push_back("valid_" + one.name);
  const Names columns = metric_columns(Task::multilabel, 2, metrics).with(classes);
  CHECK(names == Names(columns.begin() + 1, columns.end()));  // after that of the training part
  REQUIRE(values.size() == 9);
  CHECK(values[2].measured.value == 0.375);
  CHECK(values[2].metric->digits == 2);
  CHECK(values[7].measured.value == 0.5);
  CHECK(values[8].measured.value == 0.25);
}

TEST_CASE("every metric and the loss have what their rows promise") {
  for (const Metric& metric : all_metrics()) {
    INFO(metric.name);
    CHECK(metric.of_part != nullptr);
    CHECK_FALSE(metric.uses.empty());
    CHECK(std::count_if(all_metrics().begin(), all_metrics().end(),
                        [&](const Metric& other) { return other.name == metric.name; }) == 1);
    for (const Metric::Use& use : metric.uses) CHECK((metric.of_sample == nullptr || use.task == Task::segmentation));
  }
  const TrainingCounts counts{8, 6, 0.25};
  CHECK(loss_metric().of_training(counts) == 0.25);
  CHECK(all_metrics()[0].of_training(counts) == 0.75);
  Predictions p;
  p.loss = {1, 2};
  CHECK(loss_metric().of_part(p, false, nullptr).all.value == 1.5);
}
