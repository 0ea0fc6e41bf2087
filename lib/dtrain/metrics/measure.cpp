#include "dtrain/metrics/measure.hpp"

#include "dtrain/base/error.hpp"

namespace dtrain {

std::vector<NamedValue> measure(Task task, const std::vector<std::string>& classes, const Predictions& predictions,
                                const std::optional<Groups>& groups, const Metrics& metrics) {
  check(predictions.samples() == 0 || predictions.task == task, "the predictions are for this task");
  std::vector<NamedValue> of_all;
  std::vector<NamedValue> of_classes;
  for (const Metric* metric : metrics) {
    if (metric->use(task) == nullptr) continue;
    const bool each_class = metric->has_classes(task, classes.size());
    MetricValues values{{}, std::vector<Measured>(each_class ? classes.size() : 0)};
    if (predictions.samples() > 0) values = metric->of_part(predictions, each_class, groups ? &*groups : nullptr);
    check(values.classes.size() == (each_class ? classes.size() : 0),
          "a metric has a value for each class or for none");
    of_all.push_back({"", values.all, metric});
    for (const Measured& one : values.classes) of_classes.push_back({"", one, metric});
  }
  of_all.insert(of_all.end(), of_classes.begin(), of_classes.end());
  const std::vector<std::string> names = metric_names(task, classes.size(), metrics).with(classes);
  check(names.size() == of_all.size(), "each value has a name");
  for (size_t i = 0; i < names.size(); ++i) of_all[i].name = names[i];
  return of_all;
}

}  // namespace dtrain
