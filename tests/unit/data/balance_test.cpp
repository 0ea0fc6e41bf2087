// data.sampling: balanced: which samples an epoch draws, and how often.
#include "dtrain/data/order/balance.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/pixels/augment.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

// Classes 0, 1 and 2 with 3, 41 and 6 samples, mixed; class 3 has none.
Dataset uneven() {
  Dataset dataset;
  dataset.task = Task::multiclass;
  dataset.classes = {"rare", "common", "few", "absent"};
  for (int64_t i = 0; i < 50; ++i) {
    Sample sample;
    sample.class_index = i % 17 == 0 ? 0 : i % 7 == 3 ? 2 : 1;
    dataset.samples.push_back(sample);
  }
  return dataset;
}

std::vector<int64_t> all_of(const Dataset& dataset) {
  std::vector<int64_t> part(dataset.samples.size());
  std::iota(part.begin(), part.end(), 0);
  return part;
}

std::vector<LabelGroup> groups_of(const Dataset& dataset) {
  return sampled_groups(Sampling::balanced, dataset, all_of(dataset));
}

std::map<int64_t, int64_t> counts_by(const std::vector<int64_t>& draws, const Dataset& dataset) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t place : draws) ++counts[dataset.samples[static_cast<size_t>(place)].class_index];
  return counts;
}

BatchOptions batch_per_rank(int64_t per_rank) {
  BatchOptions batch;
  batch.per_rank = per_rank;
  return batch;
}

}  // namespace

TEST_CASE("samples of one class are a group; classes that do not occur are none") {
  const Dataset dataset = uneven();
  const std::vector<LabelGroup> groups = groups_of(dataset);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name == "rare");
  CHECK(groups[0].places == std::vector<int64_t>{0, 17, 34});
  CHECK(groups[1].places.size() == 41);
  CHECK(groups[2].name == "few");
  CHECK(groups[2].places.size() == 6);
  CHECK(sampled_groups(Sampling::uniform, dataset, all_of(dataset)).empty());
  const std::vector<LabelGroup> some = sampled_groups(Sampling::balanced, dataset, {17, 3, 4});  // places, not samples
  CHECK(some[0].places == std::vector<int64_t>{0});
  CHECK(some[1].places == std::vector<int64_t>{2});
  CHECK(some[2].places == std::vector<int64_t>{1});
}

TEST_CASE("several labels are grouped by their whole pattern, unknown ones included") {
  Dataset dataset;
  dataset.classes = {"a", "b"};
  for (const auto& labels : {std::vector<float>{0, 0}, {1, 1}, {1, std::nanf("")}, {0, 0}, {1, 1}, {0, 1}}) {
    Sample sample;
    sample.labels = labels;
    dataset.samples.push_back(sample);
  }
  const std::vector<LabelGroup> groups = groups_of(dataset);
  REQUIRE(groups.size() == 4);
  CHECK(groups[0].name == "no label");
  CHECK(groups[0].places == std::vector<int64_t>{0, 3});
  CHECK(groups[1].name == "b");
  CHECK(groups[2].name == "a + b");
  CHECK(groups[2].places == std::vector<int64_t>{1, 4});
  CHECK(groups[3].name == "a + b?");
  dataset.task = Task::segmentation;
  CHECK_THROWS_AS(groups_of(dataset), ConfigError);
}

TEST_CASE("each epoch draws as many of each group, and every sample of a group before one comes again") {
  const Dataset dataset = uneven();
  const std::vector<LabelGroup> groups = groups_of(dataset);
  std::map<int64_t, int64_t> times;
  std::vector<int64_t> classes(3, 0);
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    const std::vector<int64_t> draws = balanced_draws(groups, 50, 3, epoch);
    REQUIRE(draws.size() == 50);
    for (const auto& [of, count] : counts_by(draws, dataset)) {
      CHECK((count == 16 || count == 17));
      classes[static_cast<size_t>(of)] += count;
    }
    for (const int64_t place : draws) {
      ++times[place];
      const auto& own = groups[static_cast<size_t>(dataset.samples[static_cast<size_t>(place)].class_index)].places;
      int64_t least = times[place];
      for (const int64_t other : own) least = std::min(least, times[other]);
      CHECK(times[place] - least <= 1);
    }
    CHECK(draws != balanced_draws(groups, 50, 4, epoch));
    CHECK(draws == balanced_draws(groups, 50, 3, epoch));
  }
  CHECK(classes == std::vector<int64_t>{200, 200, 200});  // 12 · 50 / 3
}

TEST_CASE("an epoch's draws are the same for any V, and say how often a sample came before") {
  const Dataset dataset = uneven();
  const std::vector<LabelGroup> groups = groups_of(dataset);
  const auto taken = [&](int64_t v, Distribute distribute) {
    const EpochPlan plan(50, v, batch_per_rank(12 / v), distribute, 3, 5, groups);
    std::multiset<int64_t> places;
    std::set<std::pair<int64_t, int64_t>> keys;
    for (int64_t step = 0; step < plan.steps(); ++step)
      for (int64_t rank = 0; rank < v; ++rank) {
        const std::vector<int64_t> some = plan.places(step, rank), repeats = plan.repeats(step, rank);
        REQUIRE(some.size() == repeats.size());
        places.insert(some.begin(), some.end());
        for (size_t i = 0; i < some.size(); ++i) keys.insert({some[i], repeats[i]});
      }
    CHECK(keys.size() == 50);  // no place with the same number of repeats twice
    for (const auto& [place, repeat] : keys) CHECK((repeat == 0 || keys.contains({place, repeat - 1})));
    return places;
  };
  const std::vector<int64_t> draws = balanced_draws(groups, 50, 3, 5);
  const std::multiset<int64_t> wanted(draws.begin(), draws.end());
  for (const int64_t v : {1, 2, 3, 4, 6})
    for (const Distribute distribute : {Distribute::samples, Distribute::batches})
      CHECK(taken(v, distribute) == wanted);
  CHECK(EpochPlan(50, 1, batch_per_rank(12), Distribute::samples, 3, 5).repeats(0, 0).empty());
}

TEST_CASE("a sample that comes again in an epoch is augmented anew") {
  AugmentOptions options;
  options.rotate = 90;
  const double first = draw_augmentation(options, 1, 2, 3).rotate;
  CHECK(first == draw_augmentation(options, 1, 2, 3, 0).rotate);
  std::set<double> angles = {first, draw_augmentation(options, 1, 3, 3).rotate};
  for (const int64_t repeat : {1, 2, 3}) angles.insert(draw_augmentation(options, 1, 2, 3, repeat).rotate);
  CHECK(angles.size() == 5);
}

TEST_CASE("the banner has the draws of an epoch and the rarest groups") {
  CHECK(
      balance_text(groups_of(uneven()), 50) ==
      "sampling balanced: each epoch draws 16 or one more from each of 3 groups of equal labels, which have, from the "
      "rarest, rare 3, few 6, common 41");
}
