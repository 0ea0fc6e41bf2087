#include "dtrain/metrics/paired.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "dtrain/base/error.hpp"
#include "dtrain/metrics/measure.hpp"

namespace dtrain {
namespace {

// Tests of those metrics that have one of their own, at the places of their values.
void add_own_tests(Task task, size_t outputs, const Predictions& a, const Predictions& b, const Groups& groups,
                   const Metrics& metrics, std::vector<NamedPair>& values) {
  for (const Metric* metric : metrics) {
    if (metric->use(task) == nullptr || metric->of_pair == nullptr) continue;
    const bool each_class = metric->has_classes(task, outputs);
    const MetricPairs pairs = metric->of_pair(a, b, each_class, groups);
    check(pairs.classes.size() == (each_class ? outputs : 0), "a metric has a test for each class or for none");
    size_t next = 0;  // the values of all classes together come before those of single ones
    for (NamedPair& value : values) {
      if (value.metric != metric) continue;
      const PairedMeasure& one = next == 0 ? pairs.all : pairs.classes[next - 1];
      value.paired.test = one.test;
      value.paired.no_test = one.no_test;
      ++next;
    }
  }
}

// The family is one metric's classes: people look there for the one that stands out.
void correct_classes(std::vector<NamedPair>& values) {
  std::map<const Metric*, std::vector<PairedTest*>> families;
  for (NamedPair& value : values)
    if (value.name != value.metric->name && value.paired.test) families[value.metric].push_back(&*value.paired.test);
  for (const auto& [metric, tests] : families) {
    std::vector<double> p;
    for (const PairedTest* test : tests) p.push_back(test->p);
    const std::vector<double> corrected = holm(p);
    for (size_t i = 0; i < tests.size(); ++i) tests[i]->p_holm = corrected[i];
  }
}

}  // namespace

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double most = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    corrected[order[i]] = most;
  }
  return corrected;
}

std::vector<NamedPair> compare(Task task, const std::vector<std::string>& classes, const Predictions& a,
                               const Predictions& b, const Groups& groups, const PairedOptions& options,
                               const Told& told, const Metrics& metrics) {
  check(a.samples() > 0 && a.samples() == b.samples() && a.outputs == b.outputs, "both predicted the same samples");
  const std::vector<NamedValue> of_a = measure(task, classes, a, groups, metrics);
  const std::vector<NamedValue> of_b = measure(task, classes, b, groups, metrics);
  std::vector<NamedPair> values;
  for (size_t i = 0; i < of_a.size(); ++i)
    values.push_back({of_a[i].name,
                      {.a = of_a[i].measured.value,
                       .b = of_b[i].measured.value,
                       .groups = std::min(of_a[i].measured.confidence.groups, of_b[i].measured.confidence.groups),
                       .test = std::nullopt,
                       .no_test = ""},
                      of_a[i].metric});
  add_own_tests(task, classes.size(), a, b, groups, metrics, values);
  std::vector<NamedPair*> others;
  for (NamedPair& value : values)
    if (value.metric->of_pair == nullptr && value.paired.a && value.paired.b) others.push_back(&value);
  if (!others.empty()) bootstrap_pairs(classes, a, b, groups, options, told, others);
  correct_classes(values);
  return values;
}

}  // namespace dtrain
