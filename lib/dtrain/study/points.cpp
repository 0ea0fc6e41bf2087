#include "dtrain/study/points.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

constexpr int64_t kMostRanks = 65'536;

// Splits at commas that are outside of brackets, braces and quotes.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0)
      quote = c == quote ? '\0' : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (c == ',' && depth == 0 && quote == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  for (std::string& value : values) value = std::string(trimmed(value));
  return values;
}

template <typename T>
bool has_twice(std::vector<T> all) {
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

// As a part of a folder's name.
std::string as_name(const std::string& text) {
  constexpr size_t kMost = 32;
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    if (plain || (c == '-' && name.empty()))
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  name.resize(std::min(name.size(), kMost));
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "value" : name;
}

// "rate" of optimizer.rate, "optimizer" of optimizer.name.
std::string short_key(const std::string& key) {
  std::vector<std::string> parts = split_text(key, '.');
  if (parts.size() > 1 && parts.back() == "name") parts.pop_back();
  return parts.back();
}

// What the axes are called in names: short, unless two would be equal.
std::vector<std::string> labels_of(const SweepPlan& plan) {
  std::map<std::string, int> count;
  for (const SweepAxis& axis : plan.over) ++count[short_key(axis.key)];
  std::vector<std::string> labels;
  for (const SweepAxis& axis : plan.over)
    labels.push_back(as_name(count[short_key(axis.key)] > 1 ? axis.key : short_key(axis.key)));
  return labels;
}

// The axes that take their values together, first with first.
std::vector<std::span<const SweepAxis>> axis_groups(const SweepPlan& plan) {
  if (plan.zip) return {plan.over};
  std::vector<std::span<const SweepAxis>> groups;
  for (auto axis = plan.over.begin(); axis != plan.over.end();) {
    const auto next = std::find_if(axis + 1, plan.over.end(), [](const SweepAxis& other) { return !other.beside; });
    groups.emplace_back(axis, next);
    axis = next;
  }
  return groups;
}

std::vector<std::vector<std::string>> values_together(std::span<const SweepAxis> group) {
  std::vector<std::vector<std::string>> all(group.front().values.size());
  for (size_t i = 0; i < all.size(); ++i)
    for (const SweepAxis& axis : group) all[i].push_back(axis.values.at(i));
  return all;
}

// The values that all axes take, one list for each series.
std::vector<std::vector<std::string>> combinations_of(const SweepPlan& plan) {
  std::vector<std::vector<std::string>> all(1);
  for (const auto& group : axis_groups(plan)) {
    const auto choices = values_together(group);
    std::vector<std::vector<std::string>> longer;
    for (const auto& begun : all)
      for (const auto& values : choices) {
        longer.push_back(begun);
        longer.back().insert(longer.back().end(), values.begin(), values.end());
      }
    all = std::move(longer);
    if (static_cast<int64_t>(all.size()) > kMostPoints) break;  // refused by require_few()
  }
  return all;
}

// Whether names and series show the axis. Values that come with others need not, unless those occur twice.
bool is_shown(const SweepPlan& plan, size_t i) {
  size_t lead = i;
  while (plan.over[lead].beside) --lead;
  return lead == i || has_twice(plan.over[lead].values);
}

void require_few(double points) {
  if (points > static_cast<double>(kMostPoints))
    throw UsageError("this sweep would have more than " + with_commas(kMostPoints) +
                     " points; give fewer values to --ranks, --over, --repeat or --folds");
}

std::string name_of_point(const SweepPlan& plan, const SweepPoint& point, const std::vector<std::string>& labels) {
  std::string name = "ranks-" + std::to_string(point.ranks);
  for (size_t i = 0; i < labels.size(); ++i)
    if (is_shown(plan, i)) name += "_" + labels[i] + "-" + as_name(point.values[i]);
  if (point.fold > 0) name += "_fold-" + std::to_string(point.fold);
  if (plan.repeat > 1) name += "_seed-" + std::to_string(point.seed);
  return name;
}

// Values that differ only in what a name cannot hold get a number.
void make_unique(std::vector<SweepPoint>& points) {
  std::set<std::string> taken;
  for (SweepPoint& point : points) {
    const std::string wanted = point.name;
    for (int i = 2; !taken.insert(lower_case(point.name)).second; ++i) point.name = wanted + "_" + std::to_string(i);
  }
}

void require_free_key(const SweepPlan& plan, const std::string& key) {
  if (key == "name" || key == "output.dir")
    throw UsageError("--over " + key + " has no effect: a sweep names its run folders itself");
  if (key == "seed" && plan.repeat > 1)
    throw UsageError("--over seed and --repeat both choose the seed; leave one out");
  if (key == "data.split.fold" && plan.folds > 0)
    throw UsageError("--over data.split.fold and --folds both choose the fold; leave one out");
}

void require_pairs(const SweepPlan& plan) {
  if (!plan.zip) return;
  if (plan.over.size() < 2) throw UsageError("--zip pairs the values of several --over; give two or more");
  for (const SweepAxis& axis : plan.over)
    if (axis.values.size() != plan.over.front().values.size())
      throw UsageError("--zip pairs values, but " + plan.over.front().key + " has " +
                       std::to_string(plan.over.front().values.size()) + " and " + axis.key + " has " +
                       std::to_string(axis.values.size()));
}

}  // namespace

SweepAxis read_axis(const std::string& text) {
  const size_t equals = text.find('=');
  SweepAxis axis{text.substr(0, equals), {}};
  if (equals == std::string::npos || axis.key.empty())
    throw UsageError("--over '" + text + "' is not KEY=VALUE,VALUE…, such as optimizer.learning_rate=0.1,0.01");
  axis.values = split_values(text.substr(equals + 1));
  if (std::count(axis.values.begin(), axis.values.end(), "") > 0)
    throw UsageError("--over '" + text + "' has an empty value; write KEY=VALUE,VALUE… without spaces");
  return axis;
}

void require_sound(const SweepPlan& plan) {
  std::vector<std::string> keys;
  for (const SweepAxis& axis : plan.over) {
    require_free_key(plan, axis.key);
    keys.push_back(axis.key);
  }
  if (has_twice(keys)) throw UsageError("--over names a key twice; give all of its values at once, as KEY=V1,V2");
  if (has_twice(plan.ranks)) throw UsageError("--ranks has a number twice; --repeat N runs each point with N seeds");
  if (std::any_of(plan.ranks.begin(), plan.ranks.end(), [](int64_t ranks) { return ranks > kMostRanks; }))
    throw UsageError("--ranks goes up to " + with_commas(kMostRanks) + " (distributed.logical_ranks)");
  require_pairs(plan);
  for (const auto& group : axis_groups(plan))
    if (!plan.first_alone && has_twice(values_together(group)))
      throw UsageError("--over " + group.front().key + " has a value twice" +
                       (group.size() == 1 ? "" : ", with the same values of the keys beside it"));
}

std::vector<SweepPoint> points_of(const SweepPlan& plan, int64_t first_seed) {
  const auto combinations = combinations_of(plan);
  const int64_t folds = std::max<int64_t>(1, plan.folds);
  require_few(static_cast<double>(combinations.size()) * static_cast<double>(plan.ranks.size()) *
              static_cast<double>(folds) * static_cast<double>(plan.repeat));
  const std::vector<std::string> labels = labels_of(plan);
  std::vector<SweepPoint> points;
  for (const auto& values : combinations)
    for (const int64_t ranks : plan.ranks) {
      if (plan.first_alone && ranks == plan.ranks.front() && values != combinations.front()) continue;
      for (int64_t fold = 1; fold <= folds; ++fold)
        for (int64_t i = 0; i < plan.repeat; ++i) {
          SweepPoint point{"", ranks, values, first_seed + i, plan.folds > 0 ? fold : 0};
          point.name = name_of_point(plan, point, labels);
          points.push_back(std::move(point));
        }
    }
  make_unique(points);
  return points;
}

std::vector<std::string> overrides_of(const SweepPlan& plan, const SweepPoint& point) {
  std::vector<std::string> words;
  for (size_t i = 0; i < plan.over.size(); ++i) words.push_back(plan.over[i].key + "=" + point.values.at(i));
  if (plan.repeat > 1) words.push_back("seed=" + std::to_string(point.seed));
  // null takes back what was set before it, and is refused where nothing was.
  if (point.fold > 0)
    words.insert(words.end(), {"data.split.valid=0.1", "data.split.valid=null",
                               "data.split.fold=" + std::to_string(point.fold) + " of " + std::to_string(plan.folds)});
  return words;
}

std::string series_of(const SweepPlan& plan, const SweepPoint& point) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < plan.over.size(); ++i)
    if (is_shown(plan, i)) parts.push_back(plan.over[i].key + "=" + point.values.at(i));
  return join(parts, ", ");
}

}  // namespace dtrain
