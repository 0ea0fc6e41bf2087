#include "dtrain/metrics/paired.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtrain/metrics/auroc.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::singles;

namespace {

struct Aneurysm {
  int poor;
  double wfns, s100b, ndka;
};

const std::vector<Aneurysm>& aneurysms() {
  static const std::vector<Aneurysm> patients = {
#include "aneurysms.inc"
  };
  return patients;
}

struct Reference {
  const char* kind;
  std::vector<int64_t> groups;
  std::vector<int> labels;  // -1: unknown
  std::vector<double> a, b;
  double area_a, area_b, variance;
};

const std::vector<Reference>& references() {
  static const std::vector<Reference> sets = {
#include "paired_numbers.inc"
  };
  return sets;
}

// Scores of the outputs one after the other for each sample; the labels of all outputs are the same.
Predictions predicted(const std::vector<double>& scores, const std::vector<float>& labels, size_t outputs = 1) {
  Predictions p;
  p.outputs = outputs;
  p.loss.resize(labels.size());
  p.scores = scores;
  for (const float label : labels) p.labels.insert(p.labels.end(), outputs, label);
  return p;
}

PairedMeasure pair_named(const std::string& name, const Predictions& a, const Predictions& b, const Groups& groups,
                         const PairedOptions& options = {.draws = 200}) {
  std::vector<std::string> classes;
  for (size_t k = 0; k < a.outputs; ++k) classes.push_back(std::string(1, static_cast<char>('A' + k)));
  Metrics only;
  for (const Metric* metric : all_metrics())
    if (name.starts_with(metric->name)) only = {metric};
  for (const NamedPair& one : compare(a.task, classes, a, b, groups, options, nullptr, only))
    if (one.name == name) return one.paired;
  FAIL("there is no " << name);
  return {};
}

PairedMeasure of_aneurysms(double Aneurysm::*a, double Aneurysm::*b) {
  std::vector<double> first, second;
  std::vector<float> labels;
  for (const Aneurysm& patient : aneurysms()) {
    first.push_back(patient.*a);
    second.push_back(patient.*b);
    labels.push_back(static_cast<float>(patient.poor));
  }
  return pair_named("auroc", predicted(first, labels), predicted(second, labels), singles(labels.size()));
}

// 40 patients with three pictures each, of whom every second is ill; scores above ½ are calls. `flips`: the share of
// pictures on which B's call is drawn anew.
struct Calls {
  std::vector<double> a, b;
  std::vector<float> labels;
  Groups groups{{}, 0, "patient"};
};

Calls drawn_calls(uint64_t seed, int64_t patients, double flips) {
  KeyedRandom random(seed, Purpose::synthetic_data);
  Calls calls;
  calls.groups.count = patients;
  for (int64_t patient = 0; patient < patients; ++patient) {
    const bool hard = random.chance(0.7);
    for (int i = 0; i < 3; ++i) {
      const auto call = [&] { return patient % 2 == (random.chance(hard ? 0.5 : 0.2) ? 1 : 0) ? 0.75 : 0.25; };
      calls.groups.of.push_back(patient);
      calls.labels.push_back(patient % 2 == 0 ? 1.0F : 0.0F);
      calls.a.push_back(call());
      calls.b.push_back(random.chance(flips) ? call() : calls.a.back());
    }
  }
  return calls;
}

}  // namespace

// tests/testthat/test-roc.test.R of pROC has these digits of R's roc.test(method = "delong").
TEST_CASE("DeLong's paired test gives what pROC publishes for its example") {
  struct Published {
    double Aneurysm::*a;
    double Aneurysm::*b;
    double z, p, low, high;
  };
  for (const Published& one : {Published{&Aneurysm::s100b, &Aneurysm::wfns, 2.20898359144091, 0.0271757822291882,
                                         0.0104061769564846, 0.174214419249478},
                               Published{&Aneurysm::ndka, &Aneurysm::wfns, 2.79777591868904, 0.00514557970691098,
                                         0.0634011709339876, 0.3600405634833566},
                               Published{&Aneurysm::s100b, &Aneurysm::ndka, -1.39077002573558, 0.164295175223054,
                                         -0.2876917446341914, 0.0488706064228094}}) {
    const PairedMeasure paired = of_aneurysms(one.a, one.b);
    REQUIRE(paired.test);
    CHECK(paired.test->method == "DeLong");
    CHECK(paired.groups == 113);
    CHECK(paired.test->statistic.value() == Approx(one.z).epsilon(1e-12));
    CHECK(paired.test->p == Approx(one.p).epsilon(1e-12));
    CHECK(paired.test->low == Approx(one.low).epsilon(1e-12));
    CHECK(paired.test->high == Approx(one.high).epsilon(1e-12));
    CHECK(paired.test->difference == Approx(*paired.b - *paired.a).epsilon(1e-14));
  }
  CHECK(of_aneurysms(&Aneurysm::s100b, &Aneurysm::wfns).a.value() == Approx(0.7313686).epsilon(1e-7));
  CHECK(of_aneurysms(&Aneurysm::s100b, &Aneurysm::wfns).b.value() == Approx(0.8236789).epsilon(1e-7));
}

TEST_CASE("a paired test by patient has the variance that Obuchowski's covariances add up to") {
  for (const Reference& set : references()) {
    INFO(set.kind);
    std::vector<float> labels;
    for (const int label : set.labels) labels.push_back(label < 0 ? std::nanf("") : static_cast<float>(label));
    const Groups groups{set.groups, set.groups.back() + 1, "patient"};
    const PairedMeasure paired = pair_named("auroc", predicted(set.a, labels), predicted(set.b, labels), groups);
    CHECK(paired.a.value() == Approx(set.area_a).epsilon(1e-12));
    CHECK(paired.b.value() == Approx(set.area_b).epsilon(1e-12));
    REQUIRE(paired.test);
    const PairedTest& test = *paired.test;
    CHECK(std::pow(test.difference / *test.statistic, 2) == Approx(set.variance).epsilon(1e-10));
    const bool single = std::string(set.kind) == "singles";
    CHECK(test.method == (single ? "DeLong" : "Obuchowski"));
    CHECK(test.p == Approx(single ? normal_p(*test.statistic) : t_p(*test.statistic, test.degrees.value())));
    CHECK((test.low > 0 || test.high < 0) == (test.p < 0.05));
    const PairedMeasure back = pair_named("auroc", predicted(set.b, labels), predicted(set.a, labels), groups);
    CHECK(back.test->difference == -test.difference);
    CHECK(back.test->p == Approx(test.p).epsilon(1e-9));
  }
}

TEST_CASE("the mean over two equal outputs is tested as one of them is") {
  const Reference& set = *std::ranges::find(references(), std::string("singles"), &Reference::kind);
  std::vector<float> labels(set.labels.begin(), set.labels.end());
  const auto twice = [](const std::vector<double>& scores) {
    std::vector<double> both;
    for (const double score : scores) both.insert(both.end(), {score, score});
    return both;
  };
  const Groups groups = singles(labels.size());
  const PairedMeasure one = pair_named("auroc_A", predicted(set.a, labels), predicted(set.b, labels), groups);
  const PairedMeasure mean =
      pair_named("auroc", predicted(twice(set.a), labels, 2), predicted(twice(set.b), labels, 2), groups);
  CHECK(mean.test->p == Approx(one.test->p).epsilon(1e-12));
  CHECK(mean.test->low == Approx(one.test->low).epsilon(1e-12));
}

TEST_CASE("Holm's correction is that of R's p.adjust") {
  const std::vector<double> corrected = holm({0.01, 0.04, 0.03, 0.005});
  const std::vector<double> wanted = {0.03, 0.06, 0.06, 0.02};
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(corrected[i] == Approx(wanted[i]).epsilon(1e-12));
  CHECK(holm({0.6, 0.7}) == std::vector<double>{1, 1});
  CHECK(holm({0.02}) == std::vector<double>{0.02});
  CHECK(holm({}).empty());
}

TEST_CASE(
    "a mean over classes is tested only where all of its classes can be; each class is corrected for their number") {
  const Calls calls = drawn_calls(5, 60, 0.9);
  const auto beside = [&](const std::vector<double>& scores, size_t rare) {
    Predictions p = predicted(scores, calls.labels);
    Predictions both = p;
    both.outputs = 2;
    both.scores.clear();
    both.labels.clear();
    for (size_t i = 0; i < scores.size(); ++i) {
      both.scores.insert(both.scores.end(), {scores[i], scores[i]});
      both.labels.insert(both.labels.end(), {calls.labels[i], i < rare ? 1.0F : 0.0F});
    }
    return both;
  };
  const auto named = [&](const std::string& name, size_t rare) {
    return pair_named(name, beside(calls.a, rare), beside(calls.b, rare), calls.groups);
  };
  CHECK(named("average_precision_A", 3).test);
  CHECK(named("average_precision_B", 3).no_test.starts_with("undefined in "));  // all of one patient
  CHECK_FALSE(named("average_precision", 3).test);
  CHECK(named("average_precision", 3).no_test.starts_with("of a class undefined in "));
  CHECK(*named("average_precision_A", 3).test->p_holm == named("average_precision_A", 3).test->p);
  const PairedMeasure mean = named("average_precision", 90);
  REQUIRE(mean.test);
  CHECK_FALSE(mean.test->p_holm);
  const PairedTest first = *named("average_precision_A", 90).test;
  const PairedTest second = *named("average_precision_B", 90).test;
  CHECK(std::min(*first.p_holm, *second.p_holm) == std::min(1.0, 2 * std::min(first.p, second.p)));
}

TEST_CASE("p values and quantiles are those of the tables") {
  CHECK(normal_p(kNormalQuantile) == Approx(0.05).epsilon(1e-12));
  CHECK(normal_p(-2.575829303548901) == Approx(0.01).epsilon(1e-12));
  CHECK(normal_p(0) == 1);
  CHECK(normal_quantile(0.975) == Approx(kNormalQuantile).epsilon(1e-12));
  CHECK(normal_quantile(0.5) == Approx(0).margin(1e-12));
  CHECK(normal_quantile(0.001) == Approx(-3.090232306167813).epsilon(1e-12));
  CHECK(t_p(12.7062047364, 1) == Approx(0.05).epsilon(1e-9));
  CHECK(t_p(-3.169272673, 10) == Approx(0.01).epsilon(1e-8));
  CHECK(t_p(t_quantile(57), 57) == Approx(0.05).epsilon(1e-9));
}

TEST_CASE("the bootstrap's interval and p value come from the same percentiles") {
  std::vector<double> draws;
  for (int i = 0; i <= 2000; ++i) draws.push_back(1 - i / 2000.0 * 1.1);  // evenly from -0.1 to 1
  const PairedTest wide = bootstrap_test(0.45, draws, 10);
  const double level = normal_p(std::sqrt(10.0 / 9) * t_quantile(9)) / 2;
  CHECK(level == Approx(0.00856).epsilon(0.01));  // not 0.025: ten groups tell little
  CHECK(wide.low == Approx(-0.1 + 1.1 * level).epsilon(1e-9));
  CHECK(wide.high == Approx(1 - 1.1 * level).epsilon(1e-9));
  const PairedTest narrow = bootstrap_test(0.45, draws, 100000);
  CHECK(narrow.low == Approx(-0.1 + 1.1 * 0.025).epsilon(1e-3));
  CHECK(narrow.p == Approx(2 / 11.0).epsilon(1e-3));
  CHECK_FALSE(narrow.p_at_most);
  for (double& draw : draws) draw += 0.2;
  const PairedTest sure = bootstrap_test(0.65, draws, 100000);
  CHECK(sure.p_at_most);
  CHECK(sure.p == Approx(2 / 2002.0).epsilon(1e-3));
  for (double& draw : draws) draw = 0;
  CHECK(bootstrap_test(0, draws, 20).p == 1);
}

TEST_CASE("the paired bootstrap draws whole patients, the same for both, on any number of threads") {
  const Calls calls = drawn_calls(5, 60, 0.9);
  const Predictions a = predicted(calls.a, calls.labels);
  const Predictions b = predicted(calls.b, calls.labels);
  const PairedMeasure paired = pair_named("sensitivity_A", a, b, calls.groups, {.draws = 4000});
  REQUIRE(paired.test);
  CHECK(paired.test->method == "bootstrap");
  CHECK(paired.groups == 30);
  CHECK(paired.test->difference == *paired.b - *paired.a);
  // The standard error of the difference of two ratios with the same denominators, by patient.
  std::vector<double> sums(60, 0.0);
  for (size_t i = 0; i < calls.labels.size(); ++i)
    if (calls.labels[i] == 1) sums[static_cast<size_t>(calls.groups.of[i])] += (calls.b[i] - calls.a[i]) * 2;
  double variance = 0;
  for (size_t g = 0; g < sums.size(); g += 2)
    variance += std::pow(sums[g] - 3 * paired.test->difference, 2) / (90.0 * 90);
  const double error = std::sqrt(variance * 30 / 29);
  CHECK((paired.test->high - paired.test->low) / (2 * t_quantile(29) * error) == Approx(1).epsilon(0.12));
  for (const size_t threads : {2, 5}) {
    const PairedMeasure same = pair_named("sensitivity_A", a, b, calls.groups, {.draws = 4000, .threads = threads});
    CHECK(same.test->low == paired.test->low);
    CHECK(same.test->high == paired.test->high);
    CHECK(same.test->p == paired.test->p);
  }
}

TEST_CASE("there is no paired test where too little differs, and the reason is given") {
  const Calls same = drawn_calls(1, 40, 0);
  const auto reason = [](const std::string& name, const Calls& calls) {
    const PairedMeasure paired =
        pair_named(name, predicted(calls.a, calls.labels), predicted(calls.b, calls.labels), calls.groups);
    CHECK_FALSE(paired.test);
    return paired.no_test;
  };
  CHECK(reason("specificity_A", same) == "the same in every patient");
  CHECK(reason("auroc_A", same) == "both order the samples alike");
  CHECK(reason("average_precision_A", same) == "the same in every draw of the bootstrap");
  Calls few = same;
  for (size_t i = 3; i < 30; i += 6) few.b[i] = 1 - few.b[i];  // five healthy patients
  CHECK(reason("specificity_A", few) == "they differ in 5 patients, fewer than 10");
  CHECK(reason("sensitivity_A", few) == "the same in every patient");
  CHECK(reason("auroc_A", drawn_calls(1, 8, 0.5)) == "8 patients, fewer than 10");
  CHECK(reason("brier_A", drawn_calls(1, 8, 0.5)) == "8 patients, fewer than 10");
  Calls rare = drawn_calls(1, 40, 0.5);
  rare.groups = singles(rare.labels.size());
  for (size_t i = 0; i < rare.labels.size(); ++i) rare.labels[i] = i < 4 ? 1.0F : 0.0F;
  CHECK(reason("auroc_A", rare) == "only 4 positives, a test needs 5");
  rare.labels[4] = 1;
  CHECK(pair_named("auroc_A", predicted(rare.a, rare.labels), predicted(rare.b, rare.labels), rare.groups).test);
}
