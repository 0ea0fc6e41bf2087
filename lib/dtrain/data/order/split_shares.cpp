#include "dtrain/data/order/split_shares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/order/group_dealer.hpp"
#include "dtrain/data/order/split.hpp"

namespace dtrain {

bool holds(const Parts& parts, int part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); }

namespace {

double place_of(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }

// Counts the group's samples of each class, or with each label that is 1.
void count_labels(const Dataset& dataset, SampleGroup& group) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t index : group.samples) {
    const Sample& sample = dataset.samples[static_cast<size_t>(index)];
    if (sample.class_index >= 0) ++counts[sample.class_index];
    for (size_t k = 0; k < sample.labels.size(); ++k)
      if (sample.labels[k] == 1) ++counts[static_cast<int64_t>(k)];
  }
  group.labels.assign(counts.begin(), counts.end());
}

/// What stays together when samples are dealt.
enum class Whole {
  samples,
  groups,    // data.split.by: patient
  patients,  // groups that identify a patient
};

const std::string& name_of(const Dataset& dataset, const Sample& sample, Whole whole) {
  const bool together =
      whole == Whole::groups ? !sample.group.empty() : whole == Whole::patients && tells_patient(dataset, sample);
  return together ? sample.group : sample.path;
}

// "data.a.group, data.b.group": the keys that name patients.
std::string group_keys(bool of_record_files) {
  std::vector<std::string> keys;
  for (const DataFormat* format : data_formats())
    if (format->record_files == of_record_files && !format->group_key.empty()) keys.push_back(format->group_key);
  return join(keys, ", ");
}

// All groups of `pool`, ordered by their random places.
std::vector<SampleGroup> groups_of(const Dataset& dataset, const SplitOptions& options, Whole whole,
                                   const std::vector<int64_t>& pool) {
  std::vector<SampleGroup> groups;
  std::unordered_map<std::string, size_t> known;
  bool named = false;
  for (const int64_t index : pool) {
    const Sample& sample = dataset.samples[static_cast<size_t>(index)];
    named = named || tells_patient(dataset, sample);
    const std::string& name = name_of(dataset, sample, whole);
    const auto [entry, first] = known.emplace(name, groups.size());
    if (first) groups.push_back({name, place_of(hash64(std::to_string(options.seed) + "/" + name)), {}, {}});
    groups[entry->second].samples.push_back(index);
  }
  if (whole == Whole::groups && !named && dataset.format->guesses_groups)
    throw ConfigError(
        "data.split.by patient: the file names contain no patients (a patient is what comes before the first '_' or "
        "'.', with a digit in it, as in 0012_3.png); use by: sample");
  if (whole == Whole::groups && !named)
    throw ConfigError("data.split.by patient: the data name no patients; use by: sample, or " + group_keys(false) +
                      " (of record files: " + group_keys(true) + ")");
  for (SampleGroup& group : groups) count_labels(dataset, group);
  std::sort(groups.begin(), groups.end(), [](const SampleGroup& a, const SampleGroup& b) {
    return a.place != b.place ? a.place < b.place : a.name < b.name;
  });
  return groups;
}

// The number of bins without the test part: training and validation, or the folds.
int64_t bins_beside_test(const SplitOptions& options) {
  return options.folds > 0 ? options.folds : options.valid > 0 ? 2 : 1;
}

using Dealer = std::vector<size_t> (*)(const std::vector<SampleGroup>&, const std::vector<double>& shares);

// The part of each group: the test part is dealt first, then the rest by itself, to training and validation or to the
// folds.
std::vector<int> deal_parts(std::vector<SampleGroup>& groups, const SplitOptions& options, Dealer deal) {
  std::vector<int> parts(groups.size(), 2);
  std::vector<size_t> tested = deal(groups, {1 - options.test, options.test});
  auto left = std::count(tested.begin(), tested.end(), size_t{0});
  for (size_t g = 0; g < groups.size() && left < bins_beside_test(options); ++g)
    if (tested[g] == 1 && std::count(tested.begin() + static_cast<int64_t>(g) + 1, tested.end(), size_t{1}) > 0) {
      tested[g] = 0;  // a tiny set: the test part keeps one group, so that the other bins get theirs
      ++left;
    }
  std::vector<SampleGroup> rest;
  std::vector<size_t> whose;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (tested[g] == 1) continue;
    groups[g].place = std::min(groups[g].place / (1 - options.test), 1.0);
    whose.push_back(g);
    rest.push_back(std::move(groups[g]));
  }
  const double valid = options.valid / (1 - options.test);
  std::vector<double> shares = {1 - valid, valid};
  if (options.folds > 0) shares.assign(static_cast<size_t>(options.folds), 1 / static_cast<double>(options.folds));
  const std::vector<size_t> dealt = deal(rest, shares);
  const size_t judged = options.folds > 0 ? static_cast<size_t>(options.fold - 1) : 1;
  for (size_t g = 0; g < rest.size(); ++g) {
    parts[whose[g]] = dealt[g] == judged ? 1 : 0;
    groups[whose[g]] = std::move(rest[g]);
  }
  return parts;
}

// How many samples at the end a share is when splitting by order: at least one, but at most `spare`.
int64_t last_samples(double share, int64_t samples, int64_t spare) {
  const int64_t wanted = std::llround(share * static_cast<double>(samples));
  return std::min(std::max<int64_t>(wanted, share > 0 ? 1 : 0), std::max<int64_t>(spare, 0));
}

void require_parts(const SplitOptions& options, const Parts& parts, const std::string& what_there_is) {
  if (options.folds > 0 && !holds(parts, 1))
    throw ConfigError("data.split.fold " + std::to_string(options.fold) + " of " + std::to_string(options.folds) +
                      " gets no sample: " + what_there_is + " cannot fill every fold; add data, or use fewer");
  for (const auto& [part, share] : {std::pair<int, double>{1, options.valid}, {2, options.test}}) {
    if (share <= 0 || holds(parts, part)) continue;
    const std::string key = std::string("data.split.") + kParts[static_cast<size_t>(part)];
    throw ConfigError(key + " " + shortest(share) + " gets no sample: " + what_there_is +
                      " cannot fill training and every other part; add data, or set " + key + ": 0");
  }
}

// In natural order: the test part at the end, before it validation, or the folds one after another.
Parts parts_by_order(const SplitOptions& options, int64_t samples) {
  Parts parts(static_cast<size_t>(samples), 0);
  const int64_t test = last_samples(options.test, samples, samples - bins_beside_test(options));
  const int64_t rest = samples - test;
  std::fill(parts.end() - test, parts.end(), 2);
  if (options.folds > 0) {
    for (int64_t i = rest * (options.fold - 1) / options.folds; i < rest * options.fold / options.folds; ++i)
      parts[static_cast<size_t>(i)] = 1;
  } else {
    const int64_t valid = last_samples(options.valid, samples, rest - 1);
    std::fill(parts.end() - (test + valid), parts.end() - test, 1);
  }
  return parts;
}

// Deals out the samples in `pool`, which is ascending; all others are left out.
Parts parts_by_share(const Dataset& dataset, const SplitOptions& given, Whole whole, const std::vector<int64_t>& pool) {
  SplitOptions options = given;
  if (options.folds > 0) options.valid = 0;
  if (!(options.valid >= 0) || !(options.test >= 0) || options.valid + options.test >= 1)
    throw ConfigError("data.split.valid and data.split.test are shares of all samples, 0 or more, together below 1");
  Parts parts(dataset.samples.size(), kLeftOut);
  if (options.by == SplitOptions::By::order) {
    const auto samples = static_cast<int64_t>(pool.size());
    const Parts dealt = parts_by_order(options, samples);
    for (size_t i = 0; i < pool.size(); ++i) parts[static_cast<size_t>(pool[i])] = dealt[i];
    require_parts(options, parts, count_of(samples, "sample"));
    return parts;
  }
  std::vector<SampleGroup> groups = groups_of(dataset, options, whole, pool);
  const bool exact = options.stratify || dataset.format->generated;
  const std::vector<int> dealt = deal_parts(groups, options, exact ? deal_stratified : deal_by_place);
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int64_t sample : groups[g].samples) parts[static_cast<size_t>(sample)] = dealt[g];
  const auto there = static_cast<int64_t>(groups.size());
  require_parts(options, parts, count_of(there, options.by == SplitOptions::By::patient ? "patient" : "sample"));
  return parts;
}

// For sets that name some parts themselves: patients stay whole if they are known and there are enough of them.
Whole whole_in(const Dataset& dataset, const SplitOptions& options, const std::vector<int64_t>& pool) {
  if (options.by == SplitOptions::By::patient) return Whole::groups;
  std::set<std::string_view> names;
  for (const int64_t index : pool)
    names.insert(name_of(dataset, dataset.samples[static_cast<size_t>(index)], Whole::patients));
  const int64_t bins = bins_beside_test(options) + (options.test > 0 ? 1 : 0);
  return static_cast<int64_t>(names.size()) >= bins ? Whole::patients : Whole::samples;
}

}  // namespace

Parts all_by_share(const Dataset& dataset, const SplitOptions& options) {
  std::vector<int64_t> pool(dataset.samples.size());
  std::iota(pool.begin(), pool.end(), int64_t{0});
  return parts_by_share(dataset, options, options.by == SplitOptions::By::patient ? Whole::groups : Whole::samples,
                        pool);
}

Parts deal_rest(const Dataset& dataset, const SplitOptions& options, Parts parts) {
  const int from = holds(parts, 0) ? 0 : kLeftOut;
  std::vector<int64_t> pool;
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i] == from) pool.push_back(static_cast<int64_t>(i));
  const Parts dealt = parts_by_share(dataset, options, whole_in(dataset, options, pool), pool);
  for (const int64_t index : pool) parts[static_cast<size_t>(index)] = dealt[static_cast<size_t>(index)];
  return parts;
}

}  // namespace dtrain
