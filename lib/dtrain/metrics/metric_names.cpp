#include <algorithm>
#include <set>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {

const Metric::Use* Metric::use(Task task) const {
  const auto found = std::find_if(uses.begin(), uses.end(), [&](const Use& use) { return use.task == task; });
  return found == uses.end() ? nullptr : &*found;
}

bool Metric::has_classes(Task task, std::optional<size_t> classes) const {
  const Use* its = use(task);
  return its != nullptr && its->each_class_from > 0 && (!classes || *classes >= its->each_class_from);
}

std::vector<std::string> MetricNames::with(const std::vector<std::string>& classes) const {
  std::vector<std::string> names = of_all_classes;
  for (const std::string& stem : class_stems)
    for (const std::string& name : classes) names.push_back(stem + name);
  return names;
}

MetricNames metric_names(Task task, std::optional<size_t> classes, const Metrics& metrics) {
  MetricNames names;
  for (const Metric* metric : metrics) {
    if (metric->use(task) != nullptr) names.of_all_classes.push_back(metric->name);
    if (metric->has_classes(task, classes)) names.class_stems.push_back(metric->name + "_");
  }
  return names;
}

// The training part's, then the validation part's; `mark` parts the name of the part from the metric's.
static MetricNames names_in_parts(Task task, std::optional<size_t> classes, const Metrics& metrics, const char* mark) {
  MetricNames names;
  for (const Metric* metric : metrics)
    if (metric->use(task) != nullptr && metric->of_training != nullptr)
      names.of_all_classes.push_back(std::string("train") + mark + metric->name);
  const MetricNames valid = metric_names(task, classes, metrics);
  for (const std::string& name : valid.of_all_classes)
    names.of_all_classes.push_back(std::string("valid") + mark + name);
  for (const std::string& stem : valid.class_stems) names.class_stems.push_back(std::string("valid") + mark + stem);
  return names;
}

void require_distinct_names(Task task, const std::vector<std::string>& classes, const Metrics& metrics) {
  const MetricNames names = metric_names(task, classes.size(), metrics);
  std::set<std::string> taken(names.of_all_classes.begin(), names.of_all_classes.end());
  for (const std::string& stem : names.class_stems)
    for (const std::string& name : classes)
      if (!taken.insert(stem + name).second)
        throw ConfigError("a class is called '" + name + "', so its " + stem.substr(0, stem.size() - 1) +
                          " would have the name of another figure, " + stem + name + "; give the class another name");
}

MetricNames metric_columns(Task task, std::optional<size_t> classes, const Metrics& metrics) {
  return names_in_parts(task, classes, metrics, "_");
}

MetricNames metric_monitors(Task task, std::optional<size_t> classes, const Metrics& metrics) {
  Metrics watched = {&loss_metric()};
  watched.insert(watched.end(), metrics.begin(), metrics.end());
  return names_in_parts(task, classes, watched, ".");
}

static constexpr std::string_view kValid = "valid", kAveraged = "ema_";

std::string averaged_name(const std::string& name) {
  check(name.starts_with(kValid) && name.size() > kValid.size(), "averaged weights are judged by the validation part");
  return name.substr(0, kValid.size() + 1) + std::string(kAveraged) + name.substr(kValid.size() + 1);
}

bool is_averaged(const std::string& monitor) { return monitor.substr(monitor.find('.') + 1).starts_with(kAveraged); }

MetricNames with_averages(MetricNames names, bool averaged) {
  if (!averaged) return names;
  for (std::vector<std::string>* list : {&names.of_all_classes, &names.class_stems})
    for (size_t i = 0, count = list->size(); i < count; ++i)
      if ((*list)[i].starts_with(kValid)) list->push_back(averaged_name((*list)[i]));
  return names;
}

std::string default_monitor(Task task, const Metrics& metrics) {
  for (const Metric* metric : metrics)
    if (metric->use(task) != nullptr) return "valid." + metric->name;
  throw InternalError("no metric is for this task");
}

bool larger_is_better(const std::string& monitor, const Metrics& metrics) {
  std::string name = monitor.substr(monitor.find('.') + 1);
  if (is_averaged(monitor)) name = name.substr(kAveraged.size());
  if (name == loss_metric().name) return loss_metric().larger_is_better;
  const Metric* best = nullptr;  // whose name is the longest: a class of one metric may be called as another ends
  for (const Metric* metric : metrics) {
    if (name == metric->name) return metric->larger_is_better;
    const bool of_class = name.starts_with(metric->name + "_") &&
                          std::any_of(metric->uses.begin(), metric->uses.end(),
                                      [](const Metric::Use& use) { return use.each_class_from > 0; });
    if (of_class && (best == nullptr || best->name.size() < metric->name.size())) best = metric;
  }
  return best == nullptr || best->larger_is_better;
}

}  // namespace dtrain
