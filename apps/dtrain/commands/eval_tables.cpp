// The tables that dtrain eval writes.
#include <cmath>
#include <unordered_map>

#include "commands/eval_report.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/metrics/confusion.hpp"
#include "dtrain/metrics/curve.hpp"

namespace dtrain {
namespace {

const std::string& path_of(const EvalResult& result, size_t i) {
  return result.plan.dataset.samples[static_cast<size_t>(result.samples[i])].path;
}

// For each sample that is shown, a number that all samples of its patient have, in any part of the same data set; ""
// where the data do not tell whose a sample is.
std::vector<std::string> patient_cells(const EvalResult& result) {
  const Dataset& dataset = result.plan.dataset;
  std::unordered_map<std::string, size_t> numbers;
  for (const Sample& sample : dataset.samples)
    if (tells_patient(dataset, sample)) numbers.emplace(sample.group, numbers.size());
  std::vector<std::string> patients;
  for (const int64_t index : result.samples) {
    const Sample& sample = dataset.samples[static_cast<size_t>(index)];
    patients.push_back(tells_patient(dataset, sample) ? std::to_string(numbers.at(sample.group)) : "");
  }
  return patients;
}

std::string classification_csv(const EvalResult& result) {
  const Predictions& p = result.predictions;
  std::string text = "path";
  for (const std::string& name : result.plan.outputs) text += "," + csv_field("score_" + name);
  for (const std::string& name : result.plan.outputs) text += "," + csv_field("label_" + name);
  text += ",patient\n";
  const std::vector<std::string> patients = patient_cells(result);
  for (size_t i = 0; i < p.samples(); ++i) {
    text += csv_field(path_of(result, i));
    for (size_t k = 0; k < p.outputs; ++k) text += "," + shortest(p.score(i, k));
    for (size_t k = 0; k < p.outputs; ++k) text += std::isnan(p.label(i, k)) ? "," : p.label(i, k) > 0.5F ? ",1" : ",0";
    text += "," + patients[i] + "\n";
  }
  return text;
}

// The table for masks: a column for each metric that a single picture has, over all its classes together, and the
// pixels of each class, which the figures of the whole part are computed from.
std::string segmentation_head() {
  std::string head = "path";
  for (const Metric* metric : all_metrics())
    if (metric->of_sample != nullptr) head += "," + metric->name;
  return head;
}

std::string segmentation_csv(const EvalResult& result) {
  const Predictions& p = result.predictions;
  std::string text = segmentation_head() + ",patient";
  for (const std::string& name : result.plan.outputs)
    for (const char* what : {"both_", "predicted_", "mask_", "distance_"}) text += "," + csv_field(what + name);
  text += "\n";
  const std::vector<std::string> patients = patient_cells(result);
  for (size_t i = 0; i < p.samples(); ++i) {
    PixelCounts counts;
    for (size_t k = 0; k < p.outputs; ++k) counts += p.counts(i, k);
    text += csv_field(path_of(result, i));
    for (const Metric* metric : all_metrics())
      if (metric->of_sample != nullptr) text += "," + shortest(metric->of_sample(counts));
    text += "," + patients[i];
    for (size_t k = 0; k < p.outputs; ++k) {
      const PixelCounts& one = p.counts(i, k);
      const double distance = p.distances.empty() ? std::nan("") : p.distances[i * p.outputs + k];
      text += "," + std::to_string(one.both) + "," + std::to_string(one.predicted) + "," + std::to_string(one.wanted) +
              "," + (std::isnan(distance) ? "" : shortest(distance));
    }
    text += "\n";
  }
  return text;
}

constexpr const char* kCurveHead = "class,threshold,tpr,fpr,precision\n";

// "" where there is nothing to divide by.
std::string share_text(int64_t part, int64_t whole) {
  return whole == 0 ? "" : shortest(static_cast<double>(part) / static_cast<double>(whole));
}

std::string curves_csv(const EvalResult& result) {
  std::string text = kCurveHead;
  for (size_t k = 0; k < result.predictions.outputs; ++k) {
    const std::string name = csv_field(result.plan.outputs[k]);
    const Curve curve = curve_of(result.predictions, k);
    for (const CurvePoint& point : curve.points) {
      const int64_t called = point.true_positives + point.false_positives;
      text += name + "," + (std::isinf(point.threshold) ? "inf" : shortest(point.threshold)) + "," +
              share_text(point.true_positives, curve.positives) + "," +
              share_text(point.false_positives, curve.negatives) + "," +
              (called == 0 ? "1" : share_text(point.true_positives, called)) + "\n";
    }
  }
  return text;
}

std::string confusion_csv(const EvalResult& result) {
  const std::vector<std::string>& names = result.plan.outputs;
  std::string text = "class";
  for (const std::string& name : names) text += "," + csv_field("predicted_" + name);
  text += "\n";
  const std::vector<int64_t> counts = confusion_matrix(result.predictions);
  for (size_t i = 0; i < names.size(); ++i) {
    text += csv_field(names[i]);
    for (size_t j = 0; j < names.size(); ++j) text += "," + std::to_string(counts[i * names.size() + j]);
    text += "\n";
  }
  return text;
}

std::string metrics_text(const EvalResult& result) { return result_json(result, false) + "\n"; }

}  // namespace

std::vector<EvalFile> eval_files(Task task, const std::string& split) {
  const std::string csv = "_" + split + ".csv";
  std::vector<EvalFile> files = {{"predictions",
                                  "predictions" + csv,
                                  {segmentation_head(), "path,score_", "path,\"score_"},
                                  task == Task::segmentation ? segmentation_csv : classification_csv},
                                 {"metrics", "metrics_" + split + ".json", {"\"split_sha256\":"}, metrics_text}};
  if (task != Task::segmentation) files.push_back({"curves", "curves" + csv, {kCurveHead}, curves_csv});
  if (task == Task::multiclass)
    files.push_back({"confusion", "confusion" + csv, {"class,predicted_", "class,\"predicted_"}, confusion_csv});
  return files;
}

}  // namespace dtrain
