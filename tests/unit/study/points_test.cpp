#include "dtrain/study/points.hpp"

#include <set>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using Words = std::vector<std::string>;

static Words names_of(const SweepPlan& plan, int64_t first_seed = 7) {
  Words names;
  for (const SweepPoint& point : points_of(plan, first_seed)) names.push_back(point.name);
  return names;
}

static std::string refusal(const SweepPlan& plan) {
  try {
    require_sound(plan);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("without anything to vary a sweep is one point") {
  const auto points = points_of({}, 7);
  REQUIRE(points.size() == 1);
  CHECK(points[0].name == "ranks-1");
  CHECK(points[0].seed == 7);
  CHECK(overrides_of({}, points[0]).empty());
  CHECK(series_of({}, points[0]).empty());
}

TEST_CASE("axes are multiplied, in the order of the command line, ranks inside") {
  const SweepPlan plan{.ranks = {1, 4}, .over = {{"optimizer.name", {"sgd", "adam"}}, {"epochs", {"3", "5"}}}};
  CHECK(names_of(plan) == Words{"ranks-1_optimizer-sgd_epochs-3", "ranks-4_optimizer-sgd_epochs-3",
                                "ranks-1_optimizer-sgd_epochs-5", "ranks-4_optimizer-sgd_epochs-5",
                                "ranks-1_optimizer-adam_epochs-3", "ranks-4_optimizer-adam_epochs-3",
                                "ranks-1_optimizer-adam_epochs-5", "ranks-4_optimizer-adam_epochs-5"});
  const auto points = points_of(plan, 7);
  CHECK(overrides_of(plan, points[5]) == Words{"optimizer.name=adam", "epochs=3"});
  CHECK(series_of(plan, points[5]) == "optimizer.name=adam, epochs=3");
}

TEST_CASE("--zip pairs values") {
  const SweepPlan plan{.over = {{"a.rate", {"0.1", "0.2"}}, {"b.name", {"x", "y"}}}, .zip = true};
  CHECK(names_of(plan) == Words{"ranks-1_rate-0.1_b-x", "ranks-1_rate-0.2_b-y"});
}

TEST_CASE("seeds follow the configuration's, folds are K of N") {
  const SweepPlan plan{.repeat = 2, .folds = 2};
  CHECK(names_of(plan) ==
        Words{"ranks-1_fold-1_seed-7", "ranks-1_fold-1_seed-8", "ranks-1_fold-2_seed-7", "ranks-1_fold-2_seed-8"});
  CHECK(overrides_of(plan, points_of(plan, 7)[3]) ==
        Words{"seed=8", "data.split.valid=0.1", "data.split.valid=null", "data.split.fold=2 of 2"});
}

TEST_CASE("names hold nothing that a path would take amiss, and stay unique") {
  const SweepPlan plan{.over = {{"data.root", {"/a/b", "a b", "../..", "é"}}, {"image.size", {"[8, 8]", "[8,8]"}}}};
  const Words names = names_of(plan);
  CHECK(names[0] == "ranks-1_root-a-b_size-8-8");
  CHECK(names[1] == "ranks-1_root-a-b_size-8-8_2");
  CHECK(std::set(names.begin(), names.end()).size() == 8);
  for (const std::string& name : names) CHECK(name.find('/') == std::string::npos);
}

TEST_CASE("keys that end alike are named in full") {
  const SweepPlan plan{.over = {{"loss.rate", {"1"}}, {"optimizer.rate", {"2"}}}};
  CHECK(names_of(plan) == Words{"ranks-1_loss.rate-1_optimizer.rate-2"});
}

TEST_CASE("commas within brackets, braces and quotes belong to a value") {
  const SweepAxis axis = read_axis("data.image.size=[16, 16],[32,32],{a: 1, b: 2},\"x,y\"");
  CHECK(axis.key == "data.image.size");
  CHECK(axis.values == Words{"[16, 16]", "[32,32]", "{a: 1, b: 2}", "\"x,y\""});
  for (const char* bad : {"epochs", "=3", "epochs=", "epochs=1,,2"}) CHECK_THROWS_AS(read_axis(bad), UsageError);
}

TEST_CASE("axes that do not go together are refused") {
  CHECK(refusal({.over = {{"epochs", {"1"}}}}).empty());
  CHECK(refusal({.over = {{"epochs", {"1"}}, {"epochs", {"2"}}}}).find("names a key twice") != std::string::npos);
  CHECK(refusal({.over = {{"epochs", {"1", "1"}}}}).find("has a value twice") != std::string::npos);
  CHECK(refusal({.over = {{"epochs", {"1", "2"}}, {"seed", {"1", "1"}, true}}}).empty());
  CHECK(refusal({.over = {{"name", {"a", "b"}}}}).find("names its run folders itself") != std::string::npos);
  CHECK(refusal({.over = {{"seed", {"1", "2"}}}}).empty());
  CHECK(refusal({.over = {{"seed", {"1", "2"}}}, .repeat = 2}).find("--repeat") != std::string::npos);
  CHECK(refusal({.over = {{"data.split.fold", {"1 of 2"}}}, .folds = 2}).find("--folds") != std::string::npos);
  CHECK(refusal({.ranks = {2, 2}}).find("twice") != std::string::npos);
  CHECK(refusal({.ranks = {70'000}}).find("65,536") != std::string::npos);
  CHECK(refusal({.over = {{"epochs", {"1"}}}, .zip = true}).find("two or more") != std::string::npos);
  CHECK(refusal({.over = {{"a", {"1", "2"}}, {"b", {"1"}}}, .zip = true}).find("a has 2 and b has 1") !=
        std::string::npos);
}

TEST_CASE("values that belong to those of the axis before come with them, and stay out of names and series") {
  const SweepPlan plan{.over = {{"seed", {"1", "2"}}, {"data.format", {"a", "b"}}, {"data.root", {"x", "y"}, true}}};
  const std::vector<SweepPoint> points = points_of(plan, 0);
  REQUIRE(points.size() == 4);
  CHECK(points[1].name == "ranks-1_seed-1_format-b");
  CHECK(points[1].values == Words{"1", "b", "y"});
  CHECK(overrides_of(plan, points[2]) == Words{"seed=2", "data.format=a", "data.root=x"});
  CHECK(series_of(plan, points[2]) == "seed=2, data.format=a");
  SweepPlan twice{.over = {{"loss", {"bce", "dice", "dice"}}, {"ema", {"no", "no", "yes"}, true}}};
  CHECK(refusal(twice).empty());
  CHECK(names_of(twice) == Words{"ranks-1_loss-bce_ema-no", "ranks-1_loss-dice_ema-no", "ranks-1_loss-dice_ema-yes"});
  CHECK(series_of(twice, points_of(twice, 0)[2]) == "loss=dice, ema=yes");
  twice.over[1].values = {"no", "no", "no"};
  CHECK(refusal(twice).find("loss has a value twice, with the same values") != std::string::npos);
  CHECK(refusal({.over = {{"a", {"1", "1"}}, {"b", {"1", "2"}}}, .zip = true}).empty());
}

TEST_CASE("a sweep of more points than can be meant is refused before they are made") {
  CHECK_THROWS_AS(points_of({.repeat = int64_t{1} << 60}, 0), UsageError);
  Words many;
  for (int i = 0; i < 200; ++i) many.push_back(std::to_string(i));
  CHECK_THROWS_AS(points_of({.over = {{"a", many}, {"b", many}, {"c", many}, {"d", many}}}, 0), UsageError);
}
