// Values are those of scikit-learn's 1.9 cohen_kappa_score, standard errors those of statsmodels' 0.15 cohens_kappa (by
// the formulas of Fleiss, Cohen and Everitt, 1969), on the tables below; degrees of freedom from influences that
// NumPy found as differences with one sample's weight a little larger, t quantiles SciPy's.
#include <algorithm>
#include <array>
#include <cmath>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/measure.hpp"
#include "dtrain/metrics/paired.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;

namespace {

// A row for each label: how many of its samples got which answer.
using Answers = std::vector<std::vector<int>>;

// Five grades, as a network may tell them.
const Answers kGrades = {{50, 6, 3, 0, 0}, {8, 15, 7, 1, 0}, {2, 6, 25, 5, 1}, {0, 1, 6, 8, 3}, {0, 0, 2, 4, 7}};
const Answers kTwoClasses = {{40, 15}, {9, 26}};
const Answers kRare = {{200, 10}, {6, 6}};

void add_sample(Predictions& p, size_t label, size_t answer) {
  p.loss.push_back(0);
  for (size_t k = 0; k < p.outputs; ++k) {
    p.labels.push_back(k == label ? 1 : 0);
    p.scores.push_back(k == answer ? 0.6 : 0.4 / static_cast<double>(p.outputs - 1));
  }
}

Predictions of_classes(size_t classes) {
  Predictions p;
  p.task = Task::multiclass;
  p.outputs = classes;
  return p;
}

Predictions predictions_of(const Answers& answers) {
  Predictions p = of_classes(answers.size());
  for (size_t i = 0; i < answers.size(); ++i)
    for (size_t j = 0; j < answers.size(); ++j)
      for (int n = 0; n < answers[i][j]; ++n) add_sample(p, i, j);
  return p;
}

Groups by_sample(const Predictions& p) {
  Groups groups{{}, static_cast<int64_t>(p.samples()), "sample"};
  for (int64_t i = 0; i < groups.count; ++i) groups.of.push_back(i);
  return groups;
}

Measured kappa_named(const std::string& name, const Predictions& p, const std::optional<Groups>& groups = {}) {
  std::vector<std::string> classes;
  for (size_t k = 0; k < p.outputs; ++k) classes.push_back("grade " + std::to_string(k));
  return test::named(measure(p.task, classes, p, groups), name).measured;
}

double value_of(const std::string& name, const Answers& answers) {
  return kappa_named(name, predictions_of(answers)).value.value();
}

// Four grades, rarer from one to the next: of a patient, or of each picture. A score is the grade's part, the patient's
// and the picture's, the last two as large; the answer is the grade whose part is nearest. A second network is as good,
// and finds the same patients hard.
constexpr std::array<double, 4> kFrequency{0.5, 0.2, 0.2, 0.1};
constexpr double kStep = 1.2;

size_t drawn_grade(KeyedRandom& random) {
  double place = random.uniform();
  size_t grade = 0;
  while (grade + 1 < kFrequency.size() && place >= kFrequency[grade]) place -= kFrequency[grade++];
  return grade;
}

size_t answer_for(double score) { return static_cast<size_t>(std::clamp(std::round(score / kStep), 0.0, 3.0)); }

struct GradedPatients {
  Predictions predictions = of_classes(kFrequency.size());
  Predictions of_second = of_classes(kFrequency.size());
  Groups groups;
};

GradedPatients graded_patients(uint64_t seed, int64_t patients, bool by_patient) {
  KeyedRandom random(seed, Purpose::synthetic_data);
  GradedPatients set;
  set.groups = {{}, patients, "patient"};
  for (int64_t patient = 0; patient < patients; ++patient) {
    const double own = random.normal();
    size_t grade = drawn_grade(random);
    for (int i = 0; i < 3; ++i) {
      if (!by_patient) grade = drawn_grade(random);
      const double common = kStep * static_cast<double>(grade) + std::sqrt(0.5) * own;
      set.groups.of.push_back(patient);
      add_sample(set.predictions, grade, answer_for(common + std::sqrt(0.5) * random.normal()));
      add_sample(set.of_second, grade, answer_for(common + std::sqrt(0.5) * random.normal()));
    }
  }
  return set;
}

std::vector<size_t> rows_without(const Groups& groups, int64_t patient) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < groups.of.size(); ++i)
    if (groups.of[i] != patient) rows.push_back(i);
  return rows;
}

// In a population without end.
double true_kappa(bool quadratic) {
  const auto below = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  constexpr size_t kGradeCount = kFrequency.size();
  std::array<double, kGradeCount> answers{};
  std::array<std::array<double, kGradeCount>, kGradeCount> both{};
  for (size_t i = 0; i < kGradeCount; ++i)
    for (size_t j = 0; j < kGradeCount; ++j) {
      const double from = (static_cast<double>(j) - static_cast<double>(i) - 0.5) * kStep;
      const double upper = j + 1 == kGradeCount ? 1 : below(from + kStep);
      both[i][j] = kFrequency[i] * (upper - (j == 0 ? 0 : below(from)));
      answers[j] += both[i][j];
    }
  double observed = 0, by_chance = 0;
  for (size_t i = 0; i < kGradeCount; ++i)
    for (size_t j = 0; j < kGradeCount; ++j) {
      const double distance = std::abs(static_cast<double>(j) - static_cast<double>(i));
      const double cost = quadratic ? distance * distance : std::min(distance, 1.0);
      observed += both[i][j] * cost;
      by_chance += kFrequency[i] * answers[j] * cost;
    }
  return 1 - observed / by_chance;
}

}  // namespace

TEST_CASE("kappa, plain and weighted by squares, is scikit-learn's") {
  CHECK(value_of("kappa", kGrades) == Approx(0.5380092398152037).epsilon(1e-12));
  CHECK(value_of("kappa_quadratic", kGrades) == Approx(0.8381722989052832).epsilon(1e-12));
  CHECK(value_of("kappa", kTwoClasses) == Approx(0.455919395465995).epsilon(1e-12));
  CHECK(value_of("kappa_quadratic", kTwoClasses) == Approx(0.455919395465995).epsilon(1e-12));
}

TEST_CASE("the order of the classes counts for the weighted kappa alone") {
  const std::array<size_t, 5> order = {2, 0, 4, 1, 3};
  Answers shuffled = kGrades;
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 5; ++j) shuffled[i][j] = kGrades[order[i]][order[j]];
  CHECK(value_of("kappa", shuffled) == Approx(0.5380092398152037).epsilon(1e-12));
  CHECK(value_of("kappa_quadratic", shuffled) == Approx(0.31517509727626436).epsilon(1e-12));
}

TEST_CASE("a kappa is 1 where all is right, 0 for a constant answer, -1 for the opposite, and may be undefined") {
  for (const char* name : {"kappa", "kappa_quadratic"}) {
    INFO(name);
    CHECK(value_of(name, {{5, 0, 0}, {0, 3, 0}, {0, 0, 2}}) == 1);
    CHECK(value_of(name, {{0, 5, 0}, {0, 3, 0}, {0, 2, 0}}) == 0);
    CHECK(value_of(name, {{0, 0, 5}, {0, 0, 3}, {0, 0, 2}}) == 0);
    CHECK(value_of(name, {{0, 6}, {6, 0}}) == -1);
    const Measured one_class = kappa_named(name, predictions_of({{0, 0}, {0, 4}}));
    CHECK_FALSE(one_class.value);
    CHECK_FALSE(row_named(all_metrics(), name)->undefined.empty());
  }
}

TEST_CASE("where each sample is a group, a kappa's interval has the standard error of Fleiss, Cohen and Everitt") {
  struct Wanted {
    const char* name;
    const Answers& answers;
    double low, high;
  };
  for (const Wanted& wanted :
       {Wanted{"kappa", kGrades, 0.4353944007, 0.6268228657},
        Wanted{"kappa_quadratic", kGrades, 0.7763327221, 0.8840306752},
        Wanted{"kappa", kTwoClasses, 0.2497924727, 0.6225168797}, Wanted{"kappa", kRare, 0.1082145304, 0.6151679983}}) {
    const Predictions p = predictions_of(wanted.answers);
    const Measured measured = kappa_named(wanted.name, p, by_sample(p));
    REQUIRE(measured.confidence.interval);
    CHECK(measured.confidence.interval->method == "delta method");
    CHECK(measured.confidence.groups == static_cast<int64_t>(p.samples()));
    CHECK(measured.confidence.interval->low == Approx(wanted.low).epsilon(1e-8));
    CHECK(measured.confidence.interval->high == Approx(wanted.high).epsilon(1e-8));
  }
}

TEST_CASE("the interval of a kappa has the width that leaving out each patient gives") {
  const GradedPatients set = graded_patients(3, 60, true);
  for (const char* name : {"kappa", "kappa_quadratic"}) {
    INFO(name);
    const Measured measured = kappa_named(name, set.predictions, set.groups);
    REQUIRE(measured.confidence.interval);
    double sum = 0, squares = 0;
    for (int64_t patient = 0; patient < 60; ++patient) {
      const std::vector<size_t> rows = rows_without(set.groups, patient);
      const double without = kappa_named(name, rows_of(set.predictions, rows)).value.value();
      sum += without;
      squares += without * without;
    }
    const double jackknife = std::sqrt(59.0 / 60 * (squares - sum * sum / 60));
    const Interval& interval = *measured.confidence.interval;
    const double value = *measured.value;
    const double deviation = (std::atanh(interval.high) - std::atanh(interval.low)) / 2 * (1 - value * value);
    CHECK(deviation / jackknife > 1.9);  // around Student's t with up to 59 degrees of freedom
    CHECK(deviation / jackknife < 2.2);
    CHECK(std::atanh(interval.high) + std::atanh(interval.low) == Approx(2 * std::atanh(value)).epsilon(1e-9));
  }
}

TEST_CASE("a kappa has no interval where too few patients tell how much it varies, and the reason is given") {
  const auto reason = [](const Answers& answers, int64_t count, const std::string& noun = "patient") {
    const Predictions p = predictions_of(answers);
    Groups groups{{}, count, noun};
    for (size_t i = 0; i < p.samples(); ++i) groups.of.push_back(static_cast<int64_t>(i) % count);
    const Measured measured = kappa_named("kappa", p, groups);
    CHECK(measured.value);
    CHECK_FALSE(measured.confidence.interval);
    CHECK(measured.confidence.groups == count);
    return measured.confidence.no_interval;
  };
  CHECK(reason(kTwoClasses, 9) == "9 patients, fewer than 10");
  CHECK(reason({{20, 0}, {0, 20}}, 40) == "wrong answers for 0 patients, fewer than 10");
  CHECK(reason({{20, 4}, {3, 20}}, 47, "sample") == "wrong answers for 7 samples, fewer than 10");
  CHECK(reason({{30, 12}, {2, 3}}, 47) == "labels besides the most frequent one for 5 patients, fewer than 10");
  CHECK(reason({{30, 0}, {17, 0}}, 47) == "answers besides the most frequent one for 0 patients, fewer than 10");
  CHECK(reason({{0, 20}, {20, 0}}, 40) == "it is the same whichever patient is left out");
  CHECK(reason({{24, 12}, {12, 24}}, 12) == "it is the same whichever patient is left out");  // but for rounding
}

static PairedMeasure paired_kappa(const std::string& name, const Predictions& a, const Predictions& b,
                                  const Groups& groups) {
  const auto pairs = compare(Task::multiclass, {"a", "b", "c", "d"}, a, b, groups, {.draws = 100}, nullptr,
                             {row_named(all_metrics(), name)});
  REQUIRE(pairs.size() == 1);
  return pairs.front().paired;
}

TEST_CASE("the test of two kappas has the error that leaving out each patient gives") {
  const GradedPatients set = graded_patients(7, 60, true);
  for (const char* name : {"kappa", "kappa_quadratic"}) {
    INFO(name);
    const PairedMeasure paired = paired_kappa(name, set.predictions, set.of_second, set.groups);
    REQUIRE(paired.test);
    CHECK(paired.test->method == "delta method");
    CHECK(paired.test->difference == *paired.b - *paired.a);
    CHECK(paired.groups == 60);
    double sum = 0, squares = 0;
    for (int64_t patient = 0; patient < 60; ++patient) {
      const std::vector<size_t> rows = rows_without(set.groups, patient);
      const double without = kappa_named(name, rows_of(set.of_second, rows)).value.value() -
                             kappa_named(name, rows_of(set.predictions, rows)).value.value();
      sum += without;
      squares += without * without;
    }
    const double jackknife = std::sqrt(59.0 / 60 * (squares - sum * sum / 60));
    CHECK(paired.test->difference / *paired.test->statistic == Approx(jackknife).epsilon(0.1));
    const double half = t_quantile(*paired.test->degrees) * paired.test->difference / *paired.test->statistic;
    CHECK(paired.test->high - paired.test->low == Approx(2 * half).epsilon(1e-9));
    CHECK(paired.test->p == Approx(t_p(*paired.test->statistic, *paired.test->degrees)).epsilon(1e-12));
  }
}

TEST_CASE("two kappas have no test where the answers for too few patients differ") {
  const GradedPatients set = graded_patients(5, 60, true);
  const auto reason = [&](int64_t patients) {
    Predictions other = set.predictions;
    for (size_t i = 0; i < other.samples(); i += 3)  // the first picture of each
      if (set.groups.of[i] < patients)
        std::rotate(&other.scores[i * 4], &other.scores[i * 4 + 1], &other.scores[i * 4 + 4]);
    return paired_kappa("kappa_quadratic", set.predictions, other, set.groups).no_test;
  };
  CHECK(reason(0) == "the same in every patient");
  CHECK(reason(9) == "they differ in 9 patients, fewer than 10");
  CHECK(reason(10) == "");
}

TEST_CASE("intervals of two kappas' difference hold 0 where the networks are equally good") {
  for (const char* name : {"kappa", "kappa_quadratic"})
    for (const bool by_patient : {true, false}) {
      int held = 0, all = 0;
      for (uint64_t seed = 0; seed < 500; ++seed) {
        const GradedPatients set = graded_patients(seed, 60, by_patient);
        const PairedMeasure paired = paired_kappa(name, set.predictions, set.of_second, set.groups);
        if (!paired.test) continue;
        ++all;
        held += paired.test->low <= 0 && 0 <= paired.test->high ? 1 : 0;
      }
      INFO(name << ", labels by " << (by_patient ? "patient: " : "picture: ") << held << " of " << all);
      CHECK(all > 490);
      CHECK(held > 0.92 * all);
      CHECK(held < 0.99 * all);
    }
}

TEST_CASE("intervals of kappas hold the truth about as often as they say") {
  for (const bool quadratic : {false, true})
    for (const int64_t patients : {30, 100})
      for (const bool by_patient : {true, false}) {
        const double truth = true_kappa(quadratic);
        int held = 0, all = 0;
        for (uint64_t seed = 0; seed < 500; ++seed) {
          const GradedPatients set = graded_patients(seed, patients, by_patient);
          const Confidence confidence =
              kappa_named(quadratic ? "kappa_quadratic" : "kappa", set.predictions, set.groups).confidence;
          if (!confidence.interval) continue;
          ++all;
          held += confidence.interval->low <= truth && truth <= confidence.interval->high ? 1 : 0;
        }
        INFO((quadratic ? "quadratic, " : "plain, ")
             << patients << " patients, labels by " << (by_patient ? "patient: " : "picture: ") << held << " of "
             << all);
        CHECK(all > 475);
        CHECK(held > 0.92 * all);
        CHECK(held < 0.99 * all);
      }
}
