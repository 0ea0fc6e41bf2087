// How often 95 % intervals hold the truth, on made-up sets of which the truth is known. By hand, in some minutes:
//   test_metrics "[.coverage]" and "[.hard_coverage]"
// 2,000 sets of each design, as tables for docs/metrics.md
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "dtrain/base/random.hpp"
#include "dtrain/metrics/auroc.hpp"
#include "dtrain/metrics/share.hpp"
#include "support/catch.hpp"
#include "unit/metrics/test_tools.hpp"

using namespace dtrain;
using test::logistic;
using test::normal_share;

namespace {

// Score of a picture: distance x label + root(correlation) x the patient's own + root(1 - correlation) x the picture's,
// all normal. A picture is judged right where its score lies on its side of half the distance.
struct Design {
  const char* name = "";
  int64_t patients = 30;
  double correlation = 0.6;
  bool ill_patients = true;  // a label is the patient's; else each picture's
  double ill = 0.5;          // probability of label 1
  double least_area = 0.6;
  double most_area = 0.9;
  int64_t most_pictures = 40;  // of a patient: each number from 1 on as likely
  bool long_tail = false;      // each number x with a probability that falls as 1 / x² instead
  size_t outputs = 1;          // labels and scores of each picture; patients' own agree by half
};

struct MadeUp {
  Groups groups{{}, 0, "patient"};
  std::vector<std::vector<double>> scores;  // of each output
  std::vector<std::vector<float>> labels;
  std::vector<GroupShare> right;     // of the first output
  std::vector<GroupShare> overlaps;  // of masks: IoU of each picture about 0.7, sizes log-normal
  std::vector<GroupShare> images;
  double area = 0;
  double accuracy = 0;
};

double distance_of(double area) {
  double low = 0;
  double high = 10;
  for (int i = 0; i < 60; ++i) (normal_share((low + high) / 2 / std::sqrt(2.0)) < area ? low : high) = (low + high) / 2;
  return low;
}

// Mean of logistic(1 + z), z normal: what the overlap of all masks is.
double true_overlap() {
  double sum = 0;
  double weights = 0;
  for (int i = -800; i <= 800; ++i) {
    const double z = i / 100.0;
    const double weight = std::exp(-z * z / 2);
    sum += weight * logistic(1 + z);
    weights += weight;
  }
  return sum / weights;
}

int64_t pictures_of(const Design& design, KeyedRandom& random) {
  const auto most = static_cast<uint64_t>(design.most_pictures);
  if (!design.long_tail) return 1 + static_cast<int64_t>(random.below(most));
  return std::min(design.most_pictures, static_cast<int64_t>(1 / (1 - random.uniform())));
}

MadeUp make_up(const Design& design, uint64_t number) {
  KeyedRandom random(2017, Purpose::synthetic_data, number);
  MadeUp set;
  set.area = random.uniform(design.least_area, design.most_area);
  const double distance = distance_of(set.area);
  set.accuracy = normal_share(distance / 2);
  set.scores.resize(design.outputs);
  set.labels.resize(design.outputs);
  set.groups.count = design.patients;
  const double of_patient = std::sqrt(design.correlation);
  const double of_picture = std::sqrt(1 - design.correlation);
  for (int64_t patient = 0; patient < design.patients; ++patient) {
    const int64_t pictures = pictures_of(design, random);
    const double in_masks = of_patient * random.normal();
    const double in_all = random.normal();
    GroupShare& right = set.right.emplace_back();
    GroupShare& overlap = set.overlaps.emplace_back();
    GroupShare& image = set.images.emplace_back();
    for (int64_t i = 0; i < pictures; ++i) {
      set.groups.of.push_back(patient);
      const double iou = logistic(1 + in_masks + of_picture * random.normal());
      const double size = std::exp(random.normal());
      overlap = {overlap.part + iou * size, overlap.whole + size};
      image = {image.part + iou, image.whole + 1};
    }
    for (size_t k = 0; k < design.outputs; ++k) {
      const bool is_ill = random.chance(design.ill);
      const double own = of_patient * (design.outputs == 1 ? in_all : (in_all + random.normal()) / std::sqrt(2.0));
      for (int64_t i = 0; i < pictures; ++i) {
        const bool label = design.ill_patients ? is_ill : random.chance(design.ill);
        const double score = (label ? distance : 0) + own + of_picture * random.normal();
        set.scores[k].push_back(score);
        set.labels[k].push_back(label ? 1.0F : 0.0F);
        if (k == 0) right = {right.part + ((score > distance / 2) == label ? 1 : 0), right.whole + 1};
      }
    }
  }
  return set;
}

double ratio_of(const std::vector<GroupShare>& shares) {
  GroupShare sum;
  for (const GroupShare& share : shares) sum = {sum.part + share.part, sum.whole + share.whole};
  return sum.part / sum.whole;
}

// What was used before groups were known: DeLong's and Wilson's of pictures, whosoever they are.
Interval delong_of_pictures(const MadeUp& set) {
  Groups single{{}, static_cast<int64_t>(set.groups.of.size()), "sample"};
  single.of.resize(set.groups.of.size());
  std::iota(single.of.begin(), single.of.end(), 0);
  const AurocParts parts = *auroc_parts(set.scores[0], set.labels[0], single);
  const double half = kNormalQuantile * std::sqrt(obuchowski_variance(parts));
  return {parts.value - half, parts.value + half, ""};
}

// The percentile interval of a bootstrap over patients, for comparison.
Interval bootstrap(const std::vector<GroupShare>& shares, uint64_t number) {
  KeyedRandom random(0, Purpose::bootstrap, number);
  std::vector<double> seen(1000);
  for (double& value : seen) {
    GroupShare sum;
    for (size_t i = 0; i < shares.size(); ++i) {
      const GroupShare& one = shares[random.below(shares.size())];
      sum = {sum.part + one.part, sum.whole + one.whole};
    }
    value = sum.part / sum.whole;
  }
  std::sort(seen.begin(), seen.end());
  return {seen[25], seen[974], ""};
}

// How often the truth lay in the interval, of the sets that had one.
struct Held {
  int64_t sets = 0;
  int64_t held = 0;

  void count(const std::optional<Interval>& interval, double truth) {
    if (!interval) return;
    ++sets;
    held += interval->low <= truth && truth <= interval->high ? 1 : 0;
  }
  double percent() const { return sets == 0 ? NAN : 100.0 * static_cast<double>(held) / static_cast<double>(sets); }
  Held& operator+=(const Held& other) {
    sets += other.sets;
    held += other.held;
    return *this;
  }
};

struct Coverage {
  Held auroc, auroc_before, accuracy, accuracy_before, accuracy_bootstrap, iou, iou_bootstrap, iou_image;

  Coverage& operator+=(const Coverage& other) {
    for (Held Coverage::*held :
         {&Coverage::auroc, &Coverage::auroc_before, &Coverage::accuracy, &Coverage::accuracy_before,
          &Coverage::accuracy_bootstrap, &Coverage::iou, &Coverage::iou_bootstrap, &Coverage::iou_image})
      this->*held += other.*held;
    return *this;
  }
};

Coverage try_out(const Design& design, int64_t sets, bool with_bootstrap) {
  static const double overlap = true_overlap();
  Coverage coverage;
  for (int64_t i = 0; i < sets; ++i) {
    const MadeUp set = make_up(design, static_cast<uint64_t>(i));
    std::vector<AurocParts> outputs;
    for (size_t k = 0; k < design.outputs; ++k)
      if (auto parts = auroc_parts(set.scores[k], set.labels[k], set.groups)) outputs.push_back(std::move(*parts));
    if (outputs.size() == design.outputs) {
      coverage.auroc.count(auroc_confidence(outputs, "patient").interval, set.area);
      coverage.auroc_before.count(delong_of_pictures(set), set.area);
    }
    const auto of_shares = [&](const std::vector<GroupShare>& shares, bool trials) {
      return share_confidence(ratio_of(shares), {&shares, 1}, "patient", trials).interval;
    };
    coverage.accuracy.count(of_shares(set.right, true), set.accuracy);
    coverage.accuracy_before.count(
        wilson(ratio_of(set.right), static_cast<double>(set.groups.of.size()), kNormalQuantile), set.accuracy);
    coverage.iou.count(of_shares(set.overlaps, false), overlap);
    coverage.iou_image.count(of_shares(set.images, false), overlap);
    if (!with_bootstrap) continue;
    coverage.accuracy_bootstrap.count(bootstrap(set.right, static_cast<uint64_t>(i)), set.accuracy);
    coverage.iou_bootstrap.count(bootstrap(set.overlaps, static_cast<uint64_t>(i)), overlap);
  }
  return coverage;
}

void print_header() {
  std::printf(
      "| design | sets | AUROC | before | accuracy | before | bootstrap | IoU | bootstrap | IoU of pictures |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
}

void print_row(const std::string& name, const Coverage& c) {
  std::printf("| %s | %lld | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n", name.c_str(),
              static_cast<long long>(c.auroc.sets), c.auroc.percent(), c.auroc_before.percent(), c.accuracy.percent(),
              c.accuracy_before.percent(), c.accuracy_bootstrap.percent(), c.iou.percent(), c.iou_bootstrap.percent(),
              c.iou_image.percent());
  std::fflush(stdout);
}

constexpr double kCorrelations[] = {0.0, 0.3, 0.6, 0.9};

// All designs of so many patients together; their rows are printed where `print`.
Coverage of_patients(int64_t patients, int64_t sets, bool print) {
  Coverage all;
  for (const bool ill_patients : {true, false})
    for (const double correlation : kCorrelations) {
      Design design;
      design.patients = patients;
      design.correlation = correlation;
      design.ill_patients = ill_patients;
      const Coverage coverage = try_out(design, sets, print);
      all += coverage;
      char name[80];
      std::snprintf(name, sizeof name, "%lld patients, correlation %.1f, labels of %s",
                    static_cast<long long>(patients), correlation, ill_patients ? "patients" : "pictures");
      if (print) print_row(name, coverage);
    }
  if (print) print_row("**" + std::to_string(patients) + " patients, all**", all);
  return all;
}

// From 93 to 97.
void require_coverage(const Held& held, double slack) {
  CHECK(held.percent() > 93 - slack);
  CHECK(held.percent() < 97 + slack);
}

}  // namespace

TEST_CASE("95 % intervals for AUROC and accuracy of patients with several pictures hold the truth in 95 % of sets") {
  Coverage all;
  for (const int64_t patients : {30, 60, 100}) {
    INFO(patients << " patients");
    const Coverage coverage = of_patients(patients, 60, false);
    require_coverage(coverage.auroc, 1);  // of 480 sets
    require_coverage(coverage.accuracy, 1);
    all += coverage;
  }
  require_coverage(all.auroc, 0);
  require_coverage(all.accuracy, 0);
  require_coverage(all.iou, 0);
  require_coverage(all.iou_image, 0);
  // Intervals that take pictures for independent are far from it: this test can fail.
  CHECK(all.auroc_before.percent() < 80);
  CHECK(all.accuracy_before.percent() < 80);
}

TEST_CASE("coverage of intervals, 2,000 sets of each design", "[.coverage]") {
  print_header();
  for (const int64_t patients : {30, 60, 100, 200}) {
    const Coverage coverage = of_patients(patients, 2000, true);
    require_coverage(coverage.auroc, 0);
    require_coverage(coverage.accuracy, 0);
  }
}

TEST_CASE("coverage of intervals where it is hard, 2,000 sets of each design", "[.hard_coverage]") {
  const Design hard[] = {
      {.name = "10 patients", .patients = 10},
      {.name = "15 patients", .patients = 15},
      {.name = "20 patients", .patients = 20},
      {.name = "20 patients, correlation 0.9", .patients = 20, .correlation = 0.9},
      {.name = "30 patients, AUROC 0.95 to 0.99", .patients = 30, .least_area = 0.95, .most_area = 0.99},
      {.name = "100 patients, AUROC 0.95 to 0.99", .patients = 100, .least_area = 0.95, .most_area = 0.99},
      {.name = "100 patients, AUROC 0.95 to 0.99, correlation 0",
       .patients = 100,
       .correlation = 0,
       .least_area = 0.95,
       .most_area = 0.99},
      {.name = "60 patients, one in ten ill", .patients = 60, .ill = 0.1},
      {.name = "200 patients, one in forty ill", .patients = 200, .ill = 0.025},
      {.name = "200 patients, one picture in forty ill", .patients = 200, .ill_patients = false, .ill = 0.025},
      {.name = "60 patients, up to 184 pictures, most have few",
       .patients = 60,
       .most_pictures = 184,
       .long_tail = true},
      {.name = "200 patients, up to 184 pictures, most have few",
       .patients = 200,
       .most_pictures = 184,
       .long_tail = true},
      {.name = "30 patients of one picture", .patients = 30, .most_pictures = 1},
      {.name = "200 patients of one picture", .patients = 200, .most_pictures = 1},
      {.name = "60 patients, mean of 5 AUROCs", .patients = 60, .outputs = 5},
      {.name = "60 patients, mean of 5 AUROCs, labels of pictures",
       .patients = 60,
       .ill_patients = false,
       .outputs = 5},
  };
  print_header();
  for (const Design& design : hard) print_row(design.name, try_out(design, 2000, true));
}
