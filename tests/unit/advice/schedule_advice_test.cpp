#include "dtrain/advice/schedule_advice.hpp"

#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

static ScheduleFacts ordinary_schedule() {
  ScheduleFacts facts;
  facts.samples = 10'000;
  facts.steps_per_epoch = 100;
  facts.epochs = 90;
  facts.logical_ranks = 8;
  facts.global_batch = 100;
  facts.base_rate = 0.01;
  facts.scaled_rate = 0.08;
  facts.warmup_epochs = 5;
  return facts;
}

TEST_CASE("an ordinary schedule is no finding") {
  ScheduleFacts facts = ordinary_schedule();
  CHECK(schedule_advice(facts).empty());
  facts.warmup_epochs = 0;
  facts.scaled_rate = facts.base_rate;
  CHECK(schedule_advice(facts).empty());
}

TEST_CASE("one step an epoch at a rate scaled 64 times without warmup are two findings") {
  ScheduleFacts facts = ordinary_schedule();
  facts.samples = facts.global_batch = 768;
  facts.steps_per_epoch = 1;
  facts.logical_ranks = 64;
  facts.epochs = 30;
  facts.scaled_rate = 0.64;
  facts.warmup_epochs = 0;
  const auto found = schedule_advice(facts);
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "few_updates");
  CHECK(holds(found[0].sentence, "one step takes the whole training part (768 samples"));
  CHECK(holds(found[0].sentence, "30 updates"));
  CHECK(holds(found[0].sentence, "distributed.logical_ranks (64)"));
  CHECK(found[1].name == "warmup");
  CHECK(holds(found[1].sentence, "0.64 from the first step on, 64 times the base rate 0.01"));
  CHECK(holds(found[1].sentence, "schedule.warmup='3 epochs'"));
}

TEST_CASE("a factor of two may do without warmup, four weighs less than eight") {
  ScheduleFacts facts = ordinary_schedule();
  facts.warmup_epochs = 0;
  facts.scaled_rate = 0.02;
  CHECK(schedule_advice(facts).empty());
  facts.scaled_rate = 0.04;
  const int mild = schedule_advice(facts).at(0).weight;
  facts.scaled_rate = 0.08;
  CHECK(schedule_advice(facts).at(0).weight > mild);
}

TEST_CASE("the heaviest findings come first, equal ones as they were found") {
  const auto sorted = by_weight({{10, "a", ""}, {90, "b", ""}, {10, "c", ""}, {50, "d", ""}});
  std::string names;
  for (const Finding& finding : sorted) names += finding.name;
  CHECK(names == "bdac");
  CHECK(first_names({"a", "b", "c"}) == "a, b, c");
  CHECK(first_names({"a", "b", "c", "d", "e"}) == "a, b, c and 2 more");
}
