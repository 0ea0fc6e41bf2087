// How often the paired intervals hold the true difference, on sets in which two networks are equally good.
#include <cmath>
#include <cstdio>
#include <map>

#include "dtrain/metrics/paired.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;

namespace {

// Patients with three pictures each. A score is the label's part, what is hard about the patient and the picture for
// both networks, and what each makes of them; as a probability it is right on average.
struct PairDesign {
  int64_t patients;
  double ill;
  bool by_patient;  // the label is the patient's, else each picture has its own
};

struct Pair {
  Predictions a, b;
  Groups groups;
};

Pair drawn_pair(uint64_t seed, const PairDesign& design) {
  constexpr double kApart = 1.5, kHard = 0.6, kHardPicture = 0.4, kOwn = 0.5, kNoise = 0.48;  // squares add up to 1
  KeyedRandom random(seed, Purpose::synthetic_data);
  Pair pair{{}, {}, {{}, design.patients, "patient"}};
  for (Predictions* p : {&pair.a, &pair.b}) p->outputs = 1;
  for (int64_t patient = 0; patient < design.patients; ++patient) {
    const bool ill = random.chance(design.ill);
    const double hard = kHard * random.normal();
    const double own_a = kOwn * random.normal(), own_b = kOwn * random.normal();
    for (int picture = 0; picture < 3; ++picture) {
      const bool positive = design.by_patient ? ill : random.chance(design.ill);
      const double common = kApart * (positive ? 0.5 : -0.5) + hard + kHardPicture * random.normal();
      pair.groups.of.push_back(patient);
      for (auto& [p, own] : {std::pair(&pair.a, own_a), std::pair(&pair.b, own_b)}) {
        const double odds =
            kApart * (common + own + kNoise * random.normal()) + std::log(design.ill / (1 - design.ill));
        p->loss.push_back(0);
        p->scores.push_back(1 / (1 + std::exp(-odds)));
        p->labels.push_back(positive ? 1.0F : 0.0F);
      }
    }
  }
  return pair;
}

struct PairsHeld {
  int held = 0, all = 0;
  double percent() const { return 100.0 * held / all; }
};

// Of each metric over all classes, by name.
std::map<std::string, PairsHeld> coverage(const PairDesign& design, uint64_t sets, int64_t draws,
                                          const Metrics& metrics) {
  std::map<std::string, PairsHeld> found;
  for (uint64_t seed = 0; seed < sets; ++seed) {
    const Pair pair = drawn_pair(seed, design);
    for (const NamedPair& one :
         compare(Task::multilabel, {"A"}, pair.a, pair.b, pair.groups, {.draws = draws}, nullptr, metrics)) {
      if (one.name != one.metric->name || !one.paired.test) continue;
      const PairedTest& test = *one.paired.test;
      const bool held = test.low <= 0 && test.high >= 0;
      CHECK(held == (test.p >= 0.05));
      found[one.name].held += held ? 1 : 0;
      ++found[one.name].all;
    }
  }
  return found;
}

Metrics named_metrics(const std::vector<std::string>& names) {
  Metrics some;
  for (const std::string& name : names) some.push_back(row_named(all_metrics(), name));
  return some;
}

}  // namespace

TEST_CASE("paired intervals hold the true difference about as often as they say") {
  for (const PairDesign& design : {PairDesign{30, 0.4, true}, PairDesign{60, 0.3, false}}) {
    for (const auto& [name, held] : coverage(design, 1000, 0, named_metrics({"auroc"}))) {
      INFO(name << ": " << held.percent() << " % of " << held.all);
      CHECK(held.all > 990);
      CHECK(held.percent() > 92.5);
      CHECK(held.percent() < 98.5);
    }
    for (const auto& [name, held] : coverage(design, 250, 200, named_metrics({"f1", "brier"}))) {
      INFO(name << ": " << held.percent() << " % of " << held.all);
      CHECK(held.all > 150);
      CHECK(held.percent() > 91);
      CHECK(held.percent() < 99);
    }
  }
}

// Prints the table of docs/metrics.md; takes minutes.
TEST_CASE("coverage of paired intervals", "[.paired_coverage]") {
  const Metrics metrics = named_metrics({"auroc", "average_precision", "sensitivity", "f1", "brier", "ece"});
  for (const PairDesign& design :
       {PairDesign{15, 0.5, true}, PairDesign{30, 0.4, true}, PairDesign{30, 0.4, false}, PairDesign{60, 0.3, true},
        PairDesign{100, 0.3, true}, PairDesign{100, 0.3, false}, PairDesign{200, 0.1, true}}) {
    std::map<std::string, PairsHeld> found = coverage(design, 1000, 400, metrics);
    std::printf("| %lld patients, %.0f %% ill, labels by %s |", static_cast<long long>(design.patients),
                100 * design.ill, design.by_patient ? "patient" : "picture");
    for (const Metric* metric : metrics) std::printf(" %.1f |", found[metric->name].percent());
    std::printf("\n");
    std::fflush(stdout);
  }
}
