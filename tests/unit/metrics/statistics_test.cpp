#include <cmath>
#include <limits>
#include <numeric>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/share.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::singles;

namespace {

struct AreaReference {
  const char* kind;
  std::vector<int64_t> groups;
  std::vector<int> labels;  // -1: unknown
  std::vector<double> scores;
  double area, variance, apart;
};

const std::vector<AreaReference>& area_references() {
  static const std::vector<AreaReference> sets = {
#include "obuchowski_numbers.inc"
  };
  return sets;
}

std::vector<float> labels_of(const AreaReference& set) {
  std::vector<float> labels;
  for (const int label : set.labels) labels.push_back(label < 0 ? std::nanf("") : static_cast<float>(label));
  return labels;
}

Groups groups_of(const std::vector<int64_t>& of) { return {of, of.back() + 1, "patient"}; }

Confidence confidence_of(const std::vector<double>& scores, const std::vector<float>& labels, const Groups& groups) {
  const AurocParts parts = auroc_parts(scores, labels, groups).value();
  return auroc_confidence({&parts, 1}, groups.noun);
}

// `each` pictures of each patient, of whom the first half is ill; all in perfect order.
Confidence perfect(int64_t patients, int64_t each) {
  std::vector<double> scores;
  std::vector<float> labels;
  std::vector<int64_t> of;
  for (int64_t i = 0; i < patients * each; ++i) {
    of.push_back(i / each);
    labels.push_back(of.back() < patients / 2 ? 1.0F : 0.0F);
    scores.push_back(labels.back() + 0.001 * static_cast<double>(i));
  }
  return confidence_of(scores, labels, groups_of(of));
}

}  // namespace

TEST_CASE("AUROC, its clustered variance and its area apart are those that fractions give on ten sets") {
  REQUIRE(area_references().size() == 10);
  for (const AreaReference& set : area_references()) {
    INFO(set.kind);
    const AurocParts parts = auroc_parts(set.scores, labels_of(set), groups_of(set.groups)).value();
    CHECK(std::abs(parts.value - set.area) < 1e-12);
    CHECK(std::abs(obuchowski_variance(parts) - set.variance) < 1e-9 * set.variance);
    CHECK(std::abs(parts.apart - set.apart) < 1e-12);
    CHECK(parts.value == auroc(set.scores, labels_of(set)).value());
  }
}

TEST_CASE("the variance of an AUROC whose groups are single samples is DeLong's") {
  const AreaReference& set = area_references().front();
  const std::vector<float> labels = labels_of(set);
  const AurocParts parts = auroc_parts(set.scores, labels, singles(labels.size())).value();
  double variance = 0;
  for (const float side : {1.0F, 0.0F}) {  // of the placements of each side, over their number
    std::vector<double> placements;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != side) continue;
      double won = 0;
      double others = 0;
      for (size_t j = 0; j < labels.size(); ++j) {
        if (labels[j] == side) continue;
        won += set.scores[i] > set.scores[j] ? 1 : set.scores[i] == set.scores[j] ? 0.5 : 0;
        ++others;
      }
      placements.push_back(won / others);
    }
    const auto n = static_cast<double>(placements.size());
    const double mean = std::accumulate(placements.begin(), placements.end(), 0.0) / n;
    for (const double placement : placements) variance += (placement - mean) * (placement - mean) / (n - 1) / n;
  }
  CHECK(obuchowski_variance(parts) == Approx(variance).epsilon(1e-12));
  CHECK(parts.apart == parts.value);
  CHECK(confidence_of(set.scores, labels, singles(labels.size())).interval->method == "DeLong");
}

TEST_CASE(
    "the interval of an AUROC is symmetrical on the logit scale, by t with patients - 1 degrees where all weigh "
    "alike") {
  std::vector<double> scores;
  std::vector<float> labels;
  std::vector<int64_t> of;
  KeyedRandom random(1, Purpose::synthetic_data);
  for (int64_t i = 0; i < 60; ++i) {  // 20 patients with three pictures each, 10 of them ill
    of.push_back(i / 3);
    labels.push_back(of.back() % 2 == 0 ? 1.0F : 0.0F);
    scores.push_back(labels.back() + random.normal());
  }
  const AurocParts parts = auroc_parts(scores, labels, groups_of(of)).value();
  const Confidence confidence = auroc_confidence({&parts, 1}, "patient");
  REQUIRE(confidence.interval);
  CHECK(confidence.interval->method == "Obuchowski");
  CHECK(confidence.groups == 20);
  const auto logit = [](double x) { return std::log(x / (1 - x)); };
  const double middle = logit(parts.value);
  CHECK(logit(confidence.interval->high) - middle == Approx(middle - logit(confidence.interval->low)));
  const double se = std::sqrt(obuchowski_variance(parts)) / (parts.value * (1 - parts.value));
  const double quantile = (logit(confidence.interval->high) - middle) / se;
  CHECK(quantile >= Approx(t_quantile(19)));  // both sides weigh nearly alike
  CHECK(quantile <= Approx(t_quantile(17)));
}

TEST_CASE(
    "the mean over one output has that output's interval, the mean over two equal ones the same but for rounding") {
  const AreaReference& set = area_references()[8];
  const AurocParts parts = auroc_parts(set.scores, labels_of(set), groups_of(set.groups)).value();
  const Interval one = *auroc_confidence({&parts, 1}, "patient").interval;
  const std::vector<AurocParts> twice = {parts, parts};
  const Interval two = *auroc_confidence(twice, "patient").interval;
  CHECK(two.low == Approx(one.low));  // each patient has both labels here: both formulas are one
  CHECK(two.high == Approx(one.high));
}

TEST_CASE("a perfect AUROC has an interval, wider for fewer patients, and more pictures of each do not help") {
  const Confidence ten = perfect(10, 4);
  REQUIRE(ten.interval);
  CHECK(ten.interval->method == "Newcombe");
  CHECK(ten.interval->high == 1);
  CHECK(ten.interval->low < 0.85);
  CHECK(ten.interval->low > 0.5);
  CHECK(perfect(10, 40).interval->low == ten.interval->low);
  CHECK(perfect(100, 4).interval->low > 0.95);
  CHECK(perfect(100, 4).interval->low < 1);
}

TEST_CASE("one pair out of order does not make an AUROC surer than none") {
  std::vector<double> scores;
  std::vector<float> labels;
  std::vector<int64_t> of;
  for (int64_t i = 0; i < 400; ++i) {
    of.push_back(i / 20);
    labels.push_back(i < 200 ? 1.0F : 0.0F);
    scores.push_back(static_cast<double>(labels.back()) + (i == 7 ? -2 : 0));
  }
  const Interval interval = *confidence_of(scores, labels, groups_of(of)).interval;
  CHECK(interval.low <= perfect(20, 20).interval->low);
  CHECK(interval.high > 0.995);
  for (float& label : labels) label = 1 - label;  // and the same at 0
  const Interval mirrored = *confidence_of(scores, labels, groups_of(of)).interval;
  CHECK(mirrored.high == Approx(1 - interval.low));
  CHECK(mirrored.low == Approx(1 - interval.high));
}

TEST_CASE("where nothing can be said of an AUROC the reason is told") {
  CHECK(perfect(9, 5).no_interval == "9 patients, fewer than 10");
  CHECK_FALSE(perfect(9, 5).interval);
  std::vector<float> labels(20, 0.0F);
  std::vector<double> scores(20, 0.5);
  labels[0] = labels[1] = 1;
  std::vector<int64_t> of(20);
  for (size_t i = 0; i < of.size(); ++i) of[i] = static_cast<int64_t>(i / 2);
  CHECK(confidence_of(scores, labels, groups_of(of)).no_interval == "all positives are in one patient");
  labels[2] = 1;
  CHECK(confidence_of(scores, labels, groups_of(of)).no_interval == "the scores do not vary");
  for (size_t i = 4; i < labels.size(); ++i) labels[i] = std::nanf("");  // unknown: such patients do not count
  CHECK(confidence_of(scores, labels, groups_of(of)).no_interval == "2 patients, fewer than 10");
}

TEST_CASE("Student's quantiles are those of the tables") {
  CHECK(t_quantile(1) == Approx(12.7062047364).epsilon(1e-10));
  CHECK(t_quantile(2) == Approx(4.3026527297).epsilon(1e-10));
  CHECK(t_quantile(3) == Approx(3.1824463053).epsilon(1e-10));
  CHECK(t_quantile(9) == Approx(2.2621571628).epsilon(1e-10));
  CHECK(t_quantile(29) == Approx(2.0452296421).epsilon(1e-10));
  CHECK(t_quantile(120) == Approx(1.9799304051).epsilon(1e-10));
  CHECK(std::abs(t_quantile(20000) - t_quantile(20001)) < 1e-8);  // where the series gives way to the expansion
  CHECK(t_quantile(1000000000) == Approx(kNormalQuantile).epsilon(1e-8));
}

TEST_CASE("a few heavy groups leave fewer degrees of freedom") {
  CHECK(degrees_of(std::vector<double>(30, 0.7)) == 29);
  CHECK(degrees_of(std::vector<double>{1600, 1, 1, 1, 1, 1, 1, 1, 1, 1}) == 1);
  CHECK(degrees_of(std::vector<double>{4, 4, 4, 4, 4, 1, 1, 1, 1, 1}) == 6);  // 25² / 85 - 1
}

TEST_CASE("Wilson's interval is the one in his paper's form, and never leaves 0 to 1") {
  const Interval three_of_four = wilson(0.75, 4, kNormalQuantile);
  CHECK(three_of_four.low == Approx(0.3006).epsilon(1e-3));
  CHECK(three_of_four.high == Approx(0.9544).epsilon(1e-3));
  CHECK(wilson(1, 30, kNormalQuantile).low == Approx(30 / (30 + kNormalQuantile * kNormalQuantile)));
  CHECK(wilson(1, 30, kNormalQuantile).high == 1);
  CHECK(wilson(0, 30, kNormalQuantile).low == 0);
}

TEST_CASE("Newcombe's edge solves its equation") {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{5, 5}, {2, 40}, {100, 300}}) {
    const double area = newcombe_edge(m, n);
    const double k = static_cast<double>(m + n) / 2 - 1;
    const double variance =
        area * (1 - area) / static_cast<double>(m * n) * (1 + k * (1 - area) / (2 - area) + k * area / (1 + area));
    CHECK((1 - area) / std::sqrt(variance) == Approx(kNormalQuantile));
  }
}

TEST_CASE(
    "accuracy of samples that are alone has Wilson's interval, that of groups one as if so many were independent") {
  const auto of = [](const std::vector<GroupShare>& shares) {
    GroupShare sum;
    for (const GroupShare& share : shares) sum = {sum.part + share.part, sum.whole + share.whole};
    return share_confidence(sum.part / sum.whole, {&shares, 1}, "patient", true);
  };
  std::vector<GroupShare> alone(40, GroupShare{1, 1});
  for (size_t i = 0; i < 10; ++i) alone[i].part = 0;
  const Interval plain = *of(alone).interval;
  CHECK(plain.method == "Wilson");
  CHECK(plain.low == wilson(0.75, 40, kNormalQuantile).low);

  // Twenty pictures of each patient, all right or all wrong, are worth no more than one.
  std::vector<GroupShare> agreeing = alone;
  for (GroupShare& share : agreeing) share = {20 * share.part, 20};
  const Interval clustered = *of(agreeing).interval;
  CHECK(clustered.method == "clustered Wilson");
  CHECK(clustered.low == Approx(wilson(0.75, 39, t_quantile(39)).low));
  CHECK(clustered.high == Approx(wilson(0.75, 39, t_quantile(39)).high));

  // Where each patient's share is nearly the same, they are worth all pictures, and no more.
  std::vector<GroupShare> alike(40, GroupShare{15, 20});
  CHECK(of(alike).interval->low == Approx(wilson(0.75, 800, kNormalQuantile).low));
  alike[0].part = 14;
  CHECK(of(alike).interval->low == Approx(wilson(599.0 / 800, 800, kNormalQuantile).low));
}

TEST_CASE("a perfect accuracy has an interval by patients, and one mistake does not make it surer") {
  std::vector<GroupShare> shares(30, GroupShare{20, 20});
  const auto low = [&](double value) { return share_confidence(value, {&shares, 1}, "patient", true).interval->low; };
  const double perfect = low(1);
  CHECK(perfect == Approx(wilson(1, 30, t_quantile(29)).low));
  shares[3].part = 19;
  CHECK(low(599.0 / 600) < perfect);
  const double two_edges = low(599.0 / 600);
  for (GroupShare& share : shares) share.part = share.whole - share.part;  // as sure of one success as of one mistake
  CHECK(share_confidence(1.0 / 600, {&shares, 1}, "patient", true).interval->high == Approx(1 - two_edges));
  shares.resize(9);
  CHECK(share_confidence(0.9, {&shares, 1}, "patient", true).no_interval == "9 patients, fewer than 10");
  shares.resize(1);
  CHECK(share_confidence(0.7548, {&shares, 1}, "sample").no_interval == "1 sample, fewer than 10");
}

TEST_CASE("the interval of a ratio of pixels weighs each group by what it holds") {
  std::vector<GroupShare> shares;
  KeyedRandom random(3, Purpose::synthetic_data);
  for (int i = 0; i < 40; ++i) {
    const double whole = 100 + 900 * random.uniform();
    shares.push_back({whole * random.uniform(0.5, 0.9), whole});
  }
  GroupShare sum;
  for (const GroupShare& share : shares) sum = {sum.part + share.part, sum.whole + share.whole};
  const double value = sum.part / sum.whole;
  double variance = 0;
  for (const GroupShare& share : shares)
    variance += std::pow((share.part - value * share.whole) / sum.whole, 2) * 40 / 39;
  const Interval interval = *share_confidence(value, {&shares, 1}, "patient").interval;
  CHECK(interval.high - interval.low == Approx(2 * 2.05 * std::sqrt(variance)).epsilon(0.02));
  std::vector<GroupShare> in_megapixels;
  for (const GroupShare& share : shares) in_megapixels.push_back({share.part / 1e6, share.whole / 1e6});
  const Interval same = *share_confidence(value, {&in_megapixels, 1}, "patient").interval;
  CHECK(same.high - same.low == Approx(interval.high - interval.low).epsilon(1e-9));
  // A class that no pixel has, in prediction or mask, is perfect and says nothing.
  const std::vector<std::vector<GroupShare>> two = {shares, std::vector<GroupShare>(40)};
  const Interval mean = *share_confidence((value + 1) / 2, two, "patient").interval;
  CHECK(mean.high - mean.low == Approx((interval.high - interval.low) / 2).epsilon(0.02));
}
