#include "dtrain/advice/memory_advice.hpp"

#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

// 250 MB and 100 for each of 32 pictures.
static MemoryFacts facts_of(int64_t processes, double free_mb, double limit_mb) {
  MemoryFacts facts;
  facts.processes = processes;
  facts.process_mb = 3450;
  facts.picture_mb = 100;
  facts.pictures = 32;
  facts.free_mb = free_mb;
  facts.limit_mb = limit_mb;
  return facts;
}

TEST_CASE("a job that fits is no finding") {
  CHECK(memory_advice(facts_of(1, 4000, 8000)).empty());
  CHECK(memory_advice(facts_of(2, 6900, 8000)).empty());
  CHECK(gpu_memory_advice(facts_of(1, 0, 0), {80'000, 3500}).empty());
  CHECK(gpu_memory_advice(facts_of(1, 0, 0), {}).empty());
}

TEST_CASE("more memory than there is names the batch that fits") {
  const auto found = memory_advice(facts_of(1, 1500, 2000));
  REQUIRE(found.size() == 1);
  CHECK(found[0].weight == weight::kStops);
  CHECK(holds(found[0].sentence, "1 process needs about 3,450 MB of memory, and this host has 2,000 MB in all"));
  CHECK(holds(found[0].sentence, "batch.per_rank=15 fits"));  // 0.9 × 2,000 = 250 + 15.5 × 100
}

TEST_CASE("processes of a host add up, and the key of the batch is the one that was given") {
  MemoryFacts facts = facts_of(4, 7000, 8000);
  facts.batch_key = "batch.global";
  facts.batch_factor = 4;
  facts.bound = "the control group /job";
  facts.shared_mb = 400;
  const auto found = memory_advice(facts);
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0].sentence,
              "4 processes need about 14,200 MB of memory on one host (3,450 MB each, 400 MB besides)"));
  CHECK(holds(found[0].sentence, "the control group /job has 8,000 MB"));
  CHECK(holds(found[0].sentence, "batch.global=56 fits"));  // 0.9 × 7,600 ÷ 4 = 250 + 14.6 × 100
}

TEST_CASE("what is too much now but not for ever weighs less") {
  const auto found = memory_advice(facts_of(1, 2000, 8000));
  REQUIRE(found.size() == 1);
  CHECK(found[0].weight < weight::kStops);
  CHECK(holds(found[0].sentence, "can give 2,000 MB of its 8,000 MB now"));
}

TEST_CASE("where not even one picture fits no batch is advised") {
  const auto found = memory_advice(facts_of(1, 100, 200));
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0].sentence, "not even one picture per pass would fit"));
  CHECK_FALSE(holds(found[0].sentence, "batch.per_rank="));
}

TEST_CASE("the smallest GPU counts") {
  const auto found = gpu_memory_advice(facts_of(2, 0, 0), {80'000, 3000});
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0].sentence, "the smallest GPU here has 3,000 MB: batch.per_rank=24 fits"));
}

TEST_CASE("a cache that a job would do without is told") {
  CHECK(cache_advice(800, 1000).empty());
  CHECK(holds(cache_advice(801, 1000).at(0).sentence, "train without"));
}
