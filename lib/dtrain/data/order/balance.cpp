#include "dtrain/data/order/balance.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

// What samples of one group have in common, in the order of the groups: labels as 0, 1 and 2 (unknown).
std::vector<int64_t> pattern_of(const Sample& sample) {
  if (sample.labels.empty()) return {sample.class_index};
  std::vector<int64_t> pattern;
  for (const float label : sample.labels) pattern.push_back(std::isnan(label) ? 2 : label > 0.5F ? 1 : 0);
  return pattern;
}

std::string pattern_name(const Dataset& dataset, const Sample& sample) {
  if (sample.labels.empty()) return dataset.classes[static_cast<size_t>(sample.class_index)];
  std::vector<std::string> names;
  for (size_t k = 0; k < sample.labels.size(); ++k)
    if (std::isnan(sample.labels[k]))
      names.push_back(dataset.classes[k] + "?");
    else if (sample.labels[k] > 0.5F)
      names.push_back(dataset.classes[k]);
  return names.empty() ? "no label" : join(names, " + ");
}

}  // namespace

std::vector<LabelGroup> sampled_groups(Sampling sampling, const Dataset& dataset, const std::vector<int64_t>& part) {
  if (sampling == Sampling::uniform) return {};
  if (dataset.task == Task::segmentation)
    throw ConfigError(
        "data.sampling balanced draws by the labels of pictures, and these samples have masks; set uniform");
  std::map<std::vector<int64_t>, LabelGroup> groups;
  for (size_t place = 0; place < part.size(); ++place) {
    const Sample& sample = dataset.samples[static_cast<size_t>(part[place])];
    LabelGroup& group = groups[pattern_of(sample)];
    if (group.places.empty()) group.name = pattern_name(dataset, sample);
    group.places.push_back(static_cast<int64_t>(place));
  }
  std::vector<LabelGroup> all;
  for (auto& [pattern, group] : groups) all.push_back(std::move(group));
  return all;
}

std::vector<int64_t> balanced_draws(const std::vector<LabelGroup>& groups, int64_t samples, uint64_t seed,
                                    int64_t epoch) {
  const auto count = static_cast<int64_t>(groups.size());
  std::vector<int64_t> draws(static_cast<size_t>(samples));
  const int64_t first = epoch * samples;  // of the sequence
  for (int64_t g = 0; g < count; ++g) {
    const std::vector<int64_t>& places = groups[static_cast<size_t>(g)].places;
    const auto size = static_cast<int64_t>(places.size());
    std::vector<int64_t> order;
    int64_t round = -1;
    const int64_t skipped = ((g - first) % count + count) % count;
    for (int64_t i = skipped; i < samples; i += count) {
      const int64_t number = (first + i) / count;  // of the group's draws
      if (number / size != round) {
        round = number / size;
        order = keyed_permutation(size, seed, Purpose::balanced_draw, static_cast<uint64_t>(round),
                                  static_cast<uint64_t>(g));
      }
      draws[static_cast<size_t>(i)] = places[static_cast<size_t>(order[static_cast<size_t>(number % size)])];
    }
  }
  return draws;
}

std::string balance_text(const std::vector<LabelGroup>& groups, int64_t samples) {
  constexpr size_t kMost = 8;
  const auto count = static_cast<int64_t>(groups.size());
  const std::string draws = with_commas(samples / count) + (samples % count > 0 ? " or one more" : "");
  std::vector<const LabelGroup*> rarest;
  for (const LabelGroup& group : groups) rarest.push_back(&group);
  std::stable_sort(rarest.begin(), rarest.end(), [](const LabelGroup* one, const LabelGroup* other) {
    return one->places.size() < other->places.size();
  });
  std::vector<std::string> shown;
  for (const LabelGroup* group : rarest) {
    if (shown.size() == kMost) break;
    shown.push_back(group->name + " " + with_commas(static_cast<int64_t>(group->places.size())));
  }
  const auto more = count - static_cast<int64_t>(shown.size());
  return "sampling balanced: each epoch draws " + draws + " from each of " + count_of(count, "group") +
         " of equal labels, which have, from the rarest, " + join(shown, ", ") +
         (more > 0 ? " and " + count_of(more, "more group") : "");
}

}  // namespace dtrain
