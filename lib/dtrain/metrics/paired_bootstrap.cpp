#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/paired.hpp"

namespace dtrain {
namespace {

constexpr uint64_t kSeed = 1;            // of all draws: two comparisons of the same runs give the same figures
constexpr double kMostUndefined = 0.05;  // of the draws, for a value to have a test

std::vector<std::vector<size_t>> rows_by_group(const Groups& groups) {
  std::vector<std::vector<size_t>> rows(static_cast<size_t>(groups.count));
  for (size_t i = 0; i < groups.of.size(); ++i) rows[static_cast<size_t>(groups.of[i])].push_back(i);
  return rows;
}

// The samples of as many groups as there are, drawn with replacement.
std::vector<size_t> drawn_rows(const std::vector<std::vector<size_t>>& by_group, uint64_t draw) {
  KeyedRandom random(kSeed, Purpose::bootstrap, draw);
  std::vector<size_t> rows;
  for (size_t i = 0; i < by_group.size(); ++i) {
    const std::vector<size_t>& one = by_group[random.below(by_group.size())];
    rows.insert(rows.end(), one.begin(), one.end());
  }
  return rows;
}

// Values of the metrics that are asked for, at some samples.
class Measuring {
 public:
  // `whole`: the values of the whole part, whose classes those for all classes are the mean of; none where each sample
  // set may have its own.
  Measuring(const std::vector<std::string>& classes, const std::vector<NamedPair*>& values,
            const std::vector<NamedPair*>& whole = {})
      : classes_(classes) {
    for (const NamedPair* value : values)
      if (std::find(metrics_.begin(), metrics_.end(), value->metric) == metrics_.end())
        metrics_.push_back(value->metric);
    for (const NamedPair* value : values) names_.push_back(value->name);
    for (const NamedPair* value : whole)
      if (value->name != value->metric->name) parts_[value->metric->name].push_back(value->name);
  }

  // NaN where undefined; in the order of the values.
  std::vector<double> of(const Predictions& all, const std::vector<size_t>& rows) const {
    Found found;
    for (const NamedValue& one : measure(all.task, classes_, rows_of(all, rows), std::nullopt, metrics_))
      found.emplace(one.name, one.measured.value);
    std::vector<double> values;
    for (const std::string& name : names_) values.push_back(of_all_parts(name, found).value_or(std::nan("")));
    return values;
  }

 private:
  using Found = std::map<std::string, std::optional<double>>;

  // A mean over fewer classes is another figure than the one that is tested.
  std::optional<double> of_all_parts(const std::string& name, const Found& found) const {
    const auto parts = parts_.find(name);
    const bool all = parts == parts_.end() || std::all_of(parts->second.begin(), parts->second.end(),
                                                          [&](const auto& one) { return found.at(one).has_value(); });
    return all ? found.at(name) : std::nullopt;
  }

  const std::vector<std::string>& classes_;
  Metrics metrics_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<std::string>> parts_;  // metric → its classes
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// For each value, in how many groups the two differ, each group judged alone; counted up to what is enough.
std::vector<int64_t> differing_groups(const std::vector<std::string>& classes, const std::vector<NamedPair*>& values,
                                      const Predictions& a, const Predictions& b,
                                      const std::vector<std::vector<size_t>>& by_group) {
  const Measuring measuring(classes, values);
  std::vector<int64_t> differing(values.size(), 0);
  for (const std::vector<size_t>& rows : by_group) {
    bool enough = true;
    for (size_t v = 0; v < values.size(); ++v)
      enough = enough && (values[v]->metric->of_ranks || differing[v] >= kLeastGroups);
    if (enough) break;
    if (rows.empty()) continue;
    const std::vector<double> of_a = measuring.of(a, rows);
    const std::vector<double> of_b = measuring.of(b, rows);
    for (size_t v = 0; v < values.size(); ++v) differing[v] += same(of_a[v], of_b[v]) ? 0 : 1;
  }
  return differing;
}

// Why a value has no test; "" if it may have one.
std::string too_little(const NamedPair& value, int64_t differing, const std::string& noun) {
  if (value.paired.groups < kLeastGroups) return too_few(value.paired.groups, noun);
  if (value.metric->of_ranks || differing >= kLeastGroups) return "";
  return differing == 0 ? "the same in every " + noun : "they differ in " + too_few(differing, noun);
}

// At which share of the sorted values 0 is their quantile; 0 if all are above.
double share_up_to_zero(const std::vector<double>& sorted) {
  const auto above = std::upper_bound(sorted.begin(), sorted.end(), 0.0) - sorted.begin();
  if (above == 0) return 0;
  if (above == static_cast<std::ptrdiff_t>(sorted.size())) return 1;
  const auto i = static_cast<size_t>(above);
  const double place = static_cast<double>(i) - 1 + (0 - sorted[i - 1]) / (sorted[i] - sorted[i - 1]);
  return place / static_cast<double>(sorted.size() - 1);
}

}  // namespace

PairedTest bootstrap_test(double difference, std::vector<double> draws, int64_t groups) {
  check(draws.size() >= 100 && groups >= 2, "enough draws of enough groups");
  std::sort(draws.begin(), draws.end());
  const auto last = static_cast<double>(draws.size() - 1);
  const auto n = static_cast<double>(groups);
  // A draw varies less than the figure does, by (n − 1)/n in the variance, and Student's t has wider tails than the
  // normal.
  const double widened = std::sqrt(n / (n - 1));
  const double level = normal_p(widened * t_quantile(groups - 1)) / 2;
  const auto at = [&](double share) {
    const double place = share * last;
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, draws.size() - 1);
    return draws[below] + (place - static_cast<double>(below)) * (draws[above] - draws[below]);
  };
  const double from_below = share_up_to_zero(draws);
  std::vector<double> mirrored(draws.rbegin(), draws.rend());
  for (double& draw : mirrored) draw = -draw;
  const double other_side = std::min(from_below, share_up_to_zero(mirrored));
  const double least = 1 / (last + 2);
  const double tail = std::clamp(other_side, least, 0.5);
  return {.difference = difference,
          .low = std::min(difference, at(level)),
          .high = std::max(difference, at(1 - level)),
          .p = tail < 0.5 ? t_p(normal_quantile(tail) / widened, groups - 1) : 1.0,
          .p_at_most = other_side <= 0,
          .method = "bootstrap"};
}

void bootstrap_pairs(const std::vector<std::string>& classes, const Predictions& a, const Predictions& b,
                     const Groups& groups, const PairedOptions& options, const Told& told,
                     std::vector<NamedPair*>& values) {
  const std::vector<std::vector<size_t>> by_group = rows_by_group(groups);
  const std::vector<int64_t> differing = differing_groups(classes, values, a, b, by_group);
  std::vector<NamedPair*> tested;
  for (size_t v = 0; v < values.size(); ++v) {
    values[v]->paired.no_test = too_little(*values[v], differing[v], groups.noun);
    if (values[v]->paired.no_test.empty()) tested.push_back(values[v]);
  }
  if (tested.empty()) return;
  const Measuring measuring(classes, tested, values);
  std::vector<std::vector<double>> differences(static_cast<size_t>(options.draws));
  std::atomic<int64_t> done = 0;
  run_in_parallel(
      differences.size(), options.threads,
      [&](size_t draw) {
        const std::vector<size_t> rows = drawn_rows(by_group, draw);
        const std::vector<double> of_a = measuring.of(a, rows);
        differences[draw] = measuring.of(b, rows);
        for (size_t v = 0; v < tested.size(); ++v) differences[draw][v] -= of_a[v];
        ++done;
      },
      told ? std::function<void()>([&] { told(done); }) : nullptr);
  for (size_t v = 0; v < tested.size(); ++v) {
    PairedMeasure& paired = tested[v]->paired;
    std::vector<double> defined;
    for (const std::vector<double>& draw : differences)
      if (!std::isnan(draw[v])) defined.push_back(draw[v]);
    const auto undefined = static_cast<int64_t>(differences.size() - defined.size());
    if (static_cast<double>(undefined) > kMostUndefined * static_cast<double>(differences.size()))
      paired.no_test = (tested[v]->name == tested[v]->metric->name ? "of a class undefined in " : "undefined in ") +
                       with_commas(undefined) + " of " + count_of(options.draws, "draw");
    else if (std::all_of(defined.begin(), defined.end(), [](double one) { return one == 0; }))
      paired.no_test = "the same in every draw of the bootstrap";
    else
      paired.test = bootstrap_test(*paired.b - *paired.a, std::move(defined), paired.groups);
  }
}

}  // namespace dtrain
