#include "dtrain/data/order/sampler.hpp"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static BatchOptions batch_of(int64_t per_rank, int64_t global, bool drop_last) {
  BatchOptions batch;
  batch.per_rank = per_rank;
  batch.global = global;
  batch.drop_last = drop_last;
  return batch;
}

// Everything the plan promises, for one choice of numbers.
static void check_plan(int64_t samples, int64_t ranks, const BatchOptions& batch, Distribute distribute) {
  CAPTURE(samples, ranks, batch.per_rank, batch.global, batch.drop_last, static_cast<int>(distribute));
  const EpochPlan plan(samples, ranks, batch, distribute, 11, 3);
  const int64_t full = batch.global > 0 ? batch.global : batch.per_rank * ranks;
  REQUIRE(plan.global_batch() == full);
  std::vector<int> seen(static_cast<size_t>(samples), 0);
  bool good = true;
  for (int64_t step = 0; step < plan.steps(); ++step) {
    int64_t sum = 0;
    int64_t most = 0;
    int64_t least = samples;
    for (int64_t v = 0; v < ranks; ++v) {
      const std::vector<int64_t> places = plan.places(step, v);
      good = good && static_cast<int64_t>(places.size()) == plan.count(step, v);
      for (int64_t place : places) ++seen[static_cast<size_t>(place)];
      sum += plan.count(step, v);
      if (plan.count(step, v) == 0) continue;
      most = std::max(most, plan.count(step, v));
      least = std::min(least, plan.count(step, v));
    }
    good = good && sum == plan.count(step) && most - least <= 1 && plan.step_at(plan.cursor(step)) == step;
    if (plan.count(step) < full && samples >= 2) good = good && least >= 2;
    if (plan.count(step) >= full) good = good && plan.count(step, ranks - 1) >= 1;
    good = good && (step + 1 == plan.steps() ? plan.count(step) <= full + 1 : plan.count(step) == full);
  }
  const int64_t done = plan.cursor(plan.steps());
  good = good && plan.step_at(done) == plan.steps();
  good = good && done == (batch.drop_last ? samples - samples % full : samples);
  const auto once = std::count(seen.begin(), seen.end(), 1);
  good = good && once == done && std::count(seen.begin(), seen.end(), 0) == samples - done;
  CHECK(good);
}

TEST_CASE("every sample is taken exactly once an epoch, whatever the numbers") {
  for (int64_t ranks : {1, 2, 3, 4, 7, 8})
    for (int64_t per_rank : {1, 2, 3, 5})
      for (int64_t samples = ranks; samples <= 50; ++samples)
        for (const Distribute distribute : {Distribute::samples, Distribute::batches}) {
          check_plan(samples, ranks, batch_of(per_rank, 0, false), distribute);
          if (samples >= per_rank * ranks) check_plan(samples, ranks, batch_of(per_rank, 0, true), distribute);
        }
}

TEST_CASE("a global batch that the logical ranks do not divide is spread") {
  for (int64_t ranks : {2, 3, 5, 8})
    for (int64_t global : {8, 9, 13, 31})
      for (int64_t samples : {8, 9, 30, 31, 32, 33, 63, 100})
        for (const Distribute distribute : {Distribute::samples, Distribute::batches})
          check_plan(samples, ranks, batch_of(32, global, false), distribute);
  const EpochPlan plan(20, 3, batch_of(32, 10, false), Distribute::samples, 1, 0);
  CHECK(plan.count(0, 0) == 4);
  CHECK(plan.count(0, 1) == 3);
  CHECK(plan.count(0, 2) == 3);
}

TEST_CASE("random numbers of samples, ranks and batches keep the promises") {
  const unsigned seed = std::random_device{}();
  std::cout << "sampler seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t ranks = 1 + random() % 20;
    const int64_t samples = ranks + random() % 3000;
    const int64_t global = random() % 2 == 0 ? 0 : ranks + random() % 100;
    check_plan(samples, ranks, batch_of(1 + random() % 40, global, false),
               random() % 2 == 0 ? Distribute::samples : Distribute::batches);
  }
}

TEST_CASE("every V-th sample, or a contiguous piece") {
  const EpochPlan every(12, 3, batch_of(2, 0, false), Distribute::samples, 5, 1);
  const EpochPlan piece(12, 3, batch_of(2, 0, false), Distribute::batches, 5, 1);
  std::vector<int64_t> order;  // both plans divide the same order
  for (int64_t step = 0; step < 2; ++step)
    for (int64_t v = 0; v < 3; ++v)
      for (int64_t place : piece.places(step, v)) order.push_back(place);
  for (int64_t step = 0; step < 2; ++step)
    for (int64_t v = 0; v < 3; ++v)
      CHECK(every.places(step, v) == std::vector<int64_t>{order[static_cast<size_t>(6 * step + v)],
                                                          order[static_cast<size_t>(6 * step + v + 3)]});
}

TEST_CASE("a short last batch goes to half as many ranks as it has samples, a single one joins the batch before") {
  const EpochPlan five(21, 8, batch_of(2, 0, false), Distribute::samples, 1, 0);
  REQUIRE(five.steps() == 2);
  CHECK(five.count(1, 0) == 3);
  CHECK(five.count(1, 1) == 2);
  CHECK(five.count(1, 2) == 0);
  CHECK(five.places(1, 7).empty());
  const EpochPlan one(17, 8, batch_of(2, 0, false), Distribute::samples, 1, 0);
  REQUIRE(one.steps() == 1);
  CHECK(one.count(0) == 17);
  CHECK(one.count(0, 0) == 3);
  CHECK(one.count(0, 7) == 2);
  const EpochPlan alone(1, 1, batch_of(4, 0, false), Distribute::samples, 1, 0);
  CHECK(alone.count(0, 0) == 1);
}

TEST_CASE("the order is new each epoch and seed, and the same for the same") {
  const auto first = [](uint64_t seed, int64_t epoch) {
    return EpochPlan(100, 1, batch_of(100, 0, false), Distribute::samples, seed, epoch).places(0, 0);
  };
  CHECK(first(1, 0) == first(1, 0));
  CHECK(first(1, 0) != first(1, 1));
  CHECK(first(1, 0) != first(2, 0));
}

TEST_CASE("too few samples are a configuration error that says how many") {
  try {
    EpochPlan(3, 4, batch_of(1, 0, false), Distribute::samples, 1, 0);
    FAIL("accepted");
  } catch (const ConfigError& error) {
    const std::string sentence = error.what();
    CHECK(sentence.find("3 samples for 4 logical ranks") != std::string::npos);
  }
  CHECK_THROWS_AS(EpochPlan(7, 2, batch_of(4, 0, true), Distribute::samples, 1, 0), ConfigError);
  CHECK_THROWS_AS(EpochPlan(9, 4, batch_of(4, 3, false), Distribute::samples, 1, 0), ConfigError);
  const EpochPlan plan(10, 2, batch_of(2, 0, false), Distribute::samples, 1, 0);
  CHECK_THROWS_AS(plan.step_at(3), InternalError);
  CHECK_THROWS_AS(plan.step_at(11), InternalError);
}

TEST_CASE("a logical rank's share is cut into micro-batches of nearly one size, none of a single sample") {
  BatchOptions batch = batch_of(4, 0, false);
  batch.accumulate = 3;
  const EpochPlan plan(2 * 12 + 7, 2, batch, Distribute::samples, 1, 0);  // two logical ranks: one full step, one short
  CHECK(plan.global_batch() == 24);
  CHECK(plan.micro_batches(0, 1) == std::vector<int64_t>{4, 4, 4});
  CHECK(plan.micro_batches(1, 0) == std::vector<int64_t>{4});
  CHECK(plan.micro_batches(1, 1) == std::vector<int64_t>{3});
  batch = batch_of(2, 0, false);
  batch.accumulate = 2;
  const EpochPlan odd(4 + 3, 1, batch, Distribute::samples, 1, 0);
  CHECK(odd.micro_batches(1, 0) == std::vector<int64_t>{3});  // not 2 and 1
  batch = batch_of(1, 0, false);
  batch.accumulate = 3;
  CHECK(EpochPlan(3, 1, batch, Distribute::samples, 1, 0).micro_batches(0, 0) == std::vector<int64_t>{1, 1, 1});
  CHECK(largest_batch(batch_of(32, 7, false), 2) == 4);
}

TEST_CASE("repeated batches hold the first one's pictures and the asked-for samples") {
  struct Counting final : BatchSource {
    void start(std::vector<BatchRequest> requests) override { waiting = std::move(requests); }
    std::optional<Batch> next() override {
      ++made;
      return Batch{{}, {}, waiting.at(0).samples};
    }
    bool ready() const override { return true; }
    Figures figures() const override { return {}; }
    std::vector<BatchRequest> waiting;
    int made = 0;
  } source;
  RepeatedBatches batches(source);
  batches.start({{{1, 2}, {}}, {{3, 4}, {}}, {{5}, {}}});
  CHECK(source.made == 2);
  CHECK(batches.next()->samples == std::vector<int64_t>{1, 2});
  CHECK(batches.next()->samples == std::vector<int64_t>{3, 4});
  CHECK(batches.next()->samples == std::vector<int64_t>{5});
  CHECK(!batches.next());
}

TEST_CASE("on a CPU batches are handed through as they are, in memory and order") {
  struct Two final : BatchSource {
    void start(std::vector<BatchRequest>) override { left = 2; }
    std::optional<Batch> next() override {
      if (left == 0) return std::nullopt;
      return Batch{images, {}, {left--}};
    }
    bool ready() const override { return left > 0; }
    Figures figures() const override { return {.wait_s = 7}; }
    at::Tensor images = at::ones({1, 3, 2, 2});
    int64_t left = 0;
  } source;
  DeviceBatches batches(source, {});
  CHECK_FALSE(batches.ready());
  batches.start({});
  CHECK(batches.ready());
  const auto first = batches.next();
  CHECK(first->images.is_same(source.images));
  CHECK(first->samples == std::vector<int64_t>{2});
  CHECK(batches.next()->samples == std::vector<int64_t>{1});
  CHECK(!batches.next());
  CHECK(batches.figures().wait_s == 7);
}
