#include "dtrain/study/rate_advice.hpp"

#include <cmath>

#include "dtrain/base/text.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static std::string series(const std::string& scale, const std::string& warmup) {
  return "schedule.scale_with_ranks=" + scale + ", schedule.warmup=" + warmup;
}

/// Finished runs of a rule with these losses, one a seed.
static void add(std::vector<AdviceRun>& runs, const RateRule& rule, int64_t ranks, const std::vector<double>& losses) {
  for (const double loss : losses)
    runs.push_back(
        {.series = series(rule.scale, rule.warmup), .ranks = ranks, .finished = true, .loss = loss, .best = 1 - loss});
}

static const RateRule kNone = {};
static const RateRule kSqrt = {"sqrt", "none"};
static const RateRule kLinear = {"linear", "none"};
static const RateRule kSlowly = {"linear", "2 epochs"};

static AdviceAsked advice_asked(int64_t seeds) {
  return {.present = kLinear, .epochs = 5, .of_epochs = 50, .seeds = seeds};
}

static std::string text_of(const RateAdvice& advice) { return join(sentences_on(advice), "\n"); }

static bool advises(const RateAdvice& advice, const std::string& words) {
  return text_of(advice).find(words) != std::string::npos;
}

/// V = 1, then none, sqrt and linear at V = 8, deviations of 0.01 throughout.
static std::vector<AdviceRun> clear_runs() {
  std::vector<AdviceRun> runs;
  const double d = 0.01 / std::sqrt(2);  // a deviation of 0.01 of two
  add(runs, kNone, 1, {0.5 - d, 0.5 + d});
  add(runs, kNone, 8, {0.9 - d, 0.9 + d});
  add(runs, kSqrt, 8, {0.51 - d, 0.51 + d});
  add(runs, kLinear, 8, {0.7 - d, 0.7 + d});
  return runs;
}

TEST_CASE("the points of the advice: V = 1 once, V with each rule") {
  const SweepPlan plan = advice_plan(8, kSlowly, "2 epochs", 2);
  require_sound(plan);
  std::vector<std::string> names;
  for (const SweepPoint& point : points_of(plan, 3))
    if (point.seed == 3) names.push_back(point.name);
  CHECK(names == std::vector<std::string>{"ranks-1_scale-with-ranks-none_warmup-none_seed-3",
                                          "ranks-8_scale-with-ranks-none_warmup-none_seed-3",
                                          "ranks-8_scale-with-ranks-sqrt_warmup-none_seed-3",
                                          "ranks-8_scale-with-ranks-sqrt_warmup-2-epochs_seed-3",
                                          "ranks-8_scale-with-ranks-two-thirds_warmup-none_seed-3",
                                          "ranks-8_scale-with-ranks-two-thirds_warmup-2-epochs_seed-3",
                                          "ranks-8_scale-with-ranks-linear_warmup-none_seed-3",
                                          "ranks-8_scale-with-ranks-linear_warmup-2-epochs_seed-3"});
  CHECK(points_of(plan, 3).size() == 16);
  CHECK(series_of(plan, points_of(plan, 3)[6]) == series("sqrt", "2 epochs"));
}

TEST_CASE("a present rule that is none of these is tried as well") {
  const SweepPlan plan = advice_plan(4, {"none", "2 epochs"}, "2 epochs", 1);
  CHECK(points_of(plan, 0).size() == 9);
  CHECK(points_of(plan, 0).back().name == "ranks-4_scale-with-ranks-none_warmup-2-epochs");
}

TEST_CASE("short runs are a tenth, past the warmup, of at least 60 updates, and never longer than the job") {
  CHECK(advice_epochs(90, 4, 100) == 9);
  CHECK(advice_epochs(91, 4, 100) == 10);
  CHECK(advice_epochs(90, 5, 100) == 10);
  CHECK(advice_epochs(10, 1, 100) == 3);
  CHECK(advice_epochs(100, 2, 2) == 30);
  CHECK(advice_epochs(20, 2, 1) == 20);
  CHECK(advice_epochs(2, 50, 100) == 2);
  CHECK(advice_warmup(90) == 5);
  CHECK(advice_warmup(200) == 5);
  CHECK(advice_warmup(19) == 2);
  CHECK(advice_warmup(1) == 1);
}

TEST_CASE("the rule of the lowest loss is chosen, and compared with V = 1") {
  const RateAdvice advice = rate_advice(advice_asked(2), clear_runs());
  REQUIRE(advice.choice);
  CHECK(advice.rules[*advice.choice].rule == kSqrt);
  CHECK(advice.baseline.ranks == 1);
  REQUIRE(advice.noise);
  // Of variances that are all 0.0001, of 1 degree of freedom: the median of chi squared is 0.455 of its mean.
  CHECK(*advice.noise == Approx(0.01 / std::sqrt(0.455)).epsilon(0.02));
  CHECK(advice.margin(advice.baseline, advice.rules[*advice.choice]) == Approx(2 * *advice.noise));
  CHECK(advises(advice, "For V = 8 set schedule.scale_with_ranks: sqrt and schedule.warmup: none."));
  CHECK(advises(advice, "That keeps the 0.5000 ± 0.0100 of V = 1: the difference of +0.0100 is within"));
  CHECK(
      advises(advice, "The configuration has linear without warmup, whose loss is +0.1900 against the chosen one's."));
  CHECK(advises(advice, "the remaining 45 epochs of 50"));
  CHECK_FALSE(advises(advice, "As good"));
  CHECK(advice_table(advice, "valid_accuracy")[3] ==
        std::vector<std::string>{"sqrt without warmup", "8", "2", "0.5100 ± 0.0100", "+0.0100", "0.4900 ± 0.0100"});
}

TEST_CASE("rules that seeds cannot tell apart are named, the present one too") {
  std::vector<AdviceRun> runs = clear_runs();
  add(runs, kSlowly, 8, {0.505, 0.53});
  AdviceAsked its = advice_asked(2);
  its.present = kSlowly;
  const RateAdvice advice = rate_advice(its, runs);
  CHECK(advice.rules[*advice.choice].rule == kSqrt);
  CHECK(advises(advice, "As good, as far as these seeds can tell: linear, warmup 2 epochs."));
  CHECK(advises(advice, "The configuration has linear, warmup 2 epochs, which is as good: it need not be changed."));
  its.present = kSqrt;
  CHECK(advises(rate_advice(its, runs), "That is what the configuration has: nothing is to be changed."));
}

TEST_CASE("one lucky seed does not decide") {
  std::vector<AdviceRun> runs = clear_runs();
  add(runs, kSlowly, 8, {0.2, 0.8});  // a mean of 0.5, below that of sqrt
  const RateAdvice advice = rate_advice(advice_asked(2), runs);
  CHECK(advice.rules[*advice.choice].rule == kSqrt);
  CHECK(*advice.noise < 0.02);  // and the others' noise is not its
  AdviceAsked its = advice_asked(2);
  its.present = kSlowly;
  CHECK_FALSE(advises(rate_advice(its, runs), "As good"));
  CHECK(advises(rate_advice(its, runs),
                "whose loss is -0.0100 against the chosen one's, and differs more between seeds."));
}

TEST_CASE("where no rule keeps the loss of V = 1, the advice says by how much") {
  std::vector<AdviceRun> runs;
  add(runs, kNone, 1, {0.1, 0.11});
  add(runs, kNone, 8, {0.6, 0.61});
  add(runs, kLinear, 8, {0.3, 0.31});
  const RateAdvice advice = rate_advice(advice_asked(2), runs);
  CHECK(advice.rules[*advice.choice].rule == kLinear);
  CHECK(advises(advice,
                "No rule keeps the loss of V = 1: the chosen one is worse than the 0.1050 ± 0.0071 of V = 1 by "
                "0.2000 (190 %)"));
  CHECK(advises(advice, "It is the largest rate that was tried"));
}

TEST_CASE("a rule that diverged is never chosen, and said to have") {
  std::vector<AdviceRun> runs = clear_runs();
  add(runs, kSlowly, 8, {0.1});
  runs.push_back({.series = series("linear", "2 epochs"), .ranks = 8, .diverged = true});
  const RateAdvice advice = rate_advice(advice_asked(2), runs);
  CHECK(advice.rules[*advice.choice].rule == kSqrt);
  CHECK(advises(advice, "Diverged: linear, warmup 2 epochs (1 of 2 seeds)."));
  CHECK(advice_table(advice, "valid_iou")[5][4] == "diverged: 1");
}

TEST_CASE("a run that ended without any loss diverged") {
  std::vector<AdviceRun> runs = clear_runs();
  for (int i = 0; i < 2; ++i) runs.push_back({.series = series("linear", "2 epochs"), .ranks = 8, .finished = true});
  CHECK(advises(rate_advice(advice_asked(2), runs), "(2 of 2 seeds)"));
}

TEST_CASE("rules whose seeds have not all run are not chosen; without V = 1 there is no advice") {
  std::vector<AdviceRun> runs = clear_runs();
  runs.push_back({.series = series("linear", "2 epochs"), .ranks = 8, .finished = true, .loss = 0.1});
  CHECK(rate_advice(advice_asked(2), runs).rules[*rate_advice(advice_asked(2), runs).choice].rule == kSqrt);
  runs[0].finished = false;
  CHECK_FALSE(rate_advice(advice_asked(2), runs).choice);
  CHECK(advises(rate_advice(advice_asked(2), runs), "not all runs of V = 1 are finished"));
  runs[0].diverged = true;
  CHECK(advises(rate_advice(advice_asked(2), runs), "V = 1 diverges with its own rate"));
  CHECK_FALSE(rate_advice(advice_asked(2), {}).choice);
}

TEST_CASE("one seed has no spread, and the advice says so") {
  std::vector<AdviceRun> runs;
  add(runs, kNone, 1, {0.5});
  add(runs, kNone, 8, {0.6});
  add(runs, kLinear, 8, {0.55});
  const RateAdvice advice = rate_advice(advice_asked(1), runs);
  CHECK(advice.rules[*advice.choice].rule == kLinear);
  CHECK_FALSE(advice.noise);
  CHECK(advises(advice, "+0.0500; one seed says nothing about chance"));
}

TEST_CASE("runs of another sweep do not count") {
  std::vector<AdviceRun> runs = clear_runs();
  runs.push_back({.series = "optimizer.name=sgd", .ranks = 8, .finished = true, .loss = 0.0});
  CHECK(rate_advice(advice_asked(2), runs).rules.size() == 3);
}

TEST_CASE("advice.yaml sets the rule and V, with the evidence as comments") {
  const std::string text = advice_yaml(rate_advice(advice_asked(2), clear_runs()), "valid_accuracy");
  CHECK(text.ends_with("\nschedule:\n  scale_with_ranks: sqrt\n  warmup: none\ndistributed:\n  logical_ranks: 8\n"));
  for (const std::string& line : split_text(text.substr(0, text.find("\nschedule:")), '\n')) CHECK(line[0] == '#');
  CHECK(text.find("# sqrt without warmup | 8 | 2 | 0.5100 ± 0.0100 | +0.0100 | 0.4900 ± 0.0100\n") !=
        std::string::npos);
}
