#include "dtrain/advice/class_advice.hpp"

#include <fmt/core.h>

#include <functional>

#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

using Part = ClassFacts::Part;

constexpr int64_t kFewPositives = 5;
constexpr int64_t kFewSamples = 20;
constexpr int64_t kFewPatients = 10;  // with fewer there is no interval

// "sample" or "mask"
std::string thing(const ClassFacts& facts) { return facts.task == Task::segmentation ? "mask" : "sample"; }

std::vector<std::string> classes_where(const ClassFacts& facts, const std::function<bool(size_t)>& holds) {
  std::vector<std::string> names;
  for (size_t k = 0; k < facts.classes.size(); ++k)
    if (holds(k)) names.push_back(facts.classes[k]);
  return names;
}

std::string larger_part(const ClassFacts& facts, const std::string& part) {
  if (!(part == "valid" ? facts.shared_valid : facts.by_share)) return "put more into it";
  return facts.by_fold && part == "valid" ? "ask for fewer folds (data.split.fold)" : "raise data.split." + part;
}

// How to get more samples of a class into a part.
std::string deal_better(const ClassFacts& facts, const std::string& part) {
  return facts.by_share && !facts.stratified ? "data.split.stratify=true distributes every class by its share"
                                             : larger_part(facts, part);
}

void not_taught(const ClassFacts& facts, const Part& train, std::vector<Finding>& found) {
  const auto none = classes_where(facts, [&](size_t k) { return train.positives[k] == 0; });
  if (!none.empty())
    found.push_back({weight::kWrong + 10, "class_without_training",
                     fmt::format("no training {} shows {} ({} of {}), which cannot be learnt so: {}", thing(facts),
                                 first_names(none), none.size(),
                                 count_of(static_cast<int64_t>(facts.classes.size()), "class", "classes"),
                                 facts.by_share && !facts.stratified && facts.task != Task::segmentation
                                     ? "data.split.stratify=true may put some in, data.classes leaves them out"
                                     : "add some, or leave them out with data.classes")});
  const auto few =
      classes_where(facts, [&](size_t k) { return train.positives[k] > 0 && train.positives[k] < kFewPositives; });
  if (!few.empty())
    found.push_back({weight::kPoor + 1, "class_hardly_trained",
                     fmt::format("fewer than {} training {}s show {}, from which little can be learnt: add some, or "
                                 "leave it out with data.classes",
                                 kFewPositives, thing(facts), first_names(few))});
  if (facts.task != Task::multilabel) return;
  const auto all = classes_where(facts, [&](size_t k) { return train.positives[k] > 0 && train.negatives[k] == 0; });
  if (!all.empty())
    found.push_back({weight::kWrong, "class_without_negatives",
                     "every training sample whose label is known has " + first_names(all) +
                         ": nothing shows what its absence looks like; add samples without it, or leave them out with "
                         "data.classes"});
}

int64_t patients_with(const Part& part, size_t k) {
  return part.positive_patients.empty() ? 0 : part.positive_patients[k];
}

// What the network learns of such a class may be what this patient looks like, and no other part can have one of it.
void of_one_patient(const ClassFacts& facts, const Part& train, std::vector<Finding>& found) {
  const auto is_lone = [&](size_t k) { return patients_with(train, k) == 1 && train.positives[k] > 1; };
  const auto lone = classes_where(facts, is_lone);
  if (lone.empty()) return;
  const auto nowhere_else = [&](size_t k) {
    return std::all_of(facts.parts.begin(), facts.parts.end(),
                       [&](const Part& part) { return &part == &train || part.positives[k] == 0; });
  };
  const auto alone = classes_where(facts, [&](size_t k) { return is_lone(k) && nowhere_else(k); });
  found.push_back(
      {weight::kPoor + 6, "class_of_one_patient",
       "all training " + thing(facts) + "s of " + first_names(lone) +
           (lone.size() == 1 ? " are of one patient" : " are of one patient each") +
           ", whom the network may learn instead" +
           (alone.empty() ? "" : ", and no other part has a " + thing(facts) + " of " + first_names(alone)) +
           ": add patients, or leave it out with data.classes"});
}

void not_judged(const ClassFacts& facts, const Part& train, const Part& part, std::vector<Finding>& found) {
  const auto taught = [&](size_t k) { return train.positives[k] > 0; };
  const bool masks = facts.task == Task::segmentation;
  const auto none = classes_where(
      facts, [&](size_t k) { return taught(k) && (part.positives[k] == 0 || (!masks && part.negatives[k] == 0)); });
  if (!none.empty())
    found.push_back({weight::kPoor + 5, "class_without_metric",
                     std::string(masks ? "IoU" : "AUROC") + " of " + first_names(none) + " cannot be computed: the " +
                         part.name + " part has no " + thing(facts) +
                         (masks ? " with it" : " with it, or none without it") + "; " + deal_better(facts, part.name) +
                         ", data.classes chooses others"});
  const auto few = classes_where(
      facts, [&](size_t k) { return taught(k) && part.positives[k] > 0 && part.positives[k] < kFewPositives; });
  if (!few.empty())
    found.push_back(
        {weight::kPoor - 10, "class_with_few",
         fmt::format("the {} part has fewer than {} {}s of {}, so a single one can decide the figure: {}", part.name,
                     kFewPositives, thing(facts), first_names(few), larger_part(facts, part.name))});
}

void too_small(const ClassFacts& facts, const Part& part, std::vector<Finding>& found) {
  const std::string more = larger_part(facts, part.name);
  if (part.patients > 0 && part.patients < kFewPatients) {
    found.push_back(
        {weight::kPoor - 5, "few_patients",
         fmt::format("the {} part has {} of {}, and fewer than {} patients give no interval: {}", part.name,
                     count_of(part.samples, "sample"), count_of(part.patients, "patient"), kFewPatients, more)});
  } else if (part.samples < kFewSamples) {
    found.push_back({part.samples < kFewPositives ? weight::kPoor + 2 : weight::kPoor - 8, "few_samples",
                     "the " + part.name + " part has " + count_of(part.samples, "sample") +
                         ", so each of them moves its figures by " +
                         fixed(100.0 / static_cast<double>(part.samples), 0) + " %: " + more});
  }
}

}  // namespace

std::vector<Finding> class_advice(const ClassFacts& facts) {
  std::vector<Finding> found;
  const Part* train = nullptr;
  bool validated = false;
  for (const Part& part : facts.parts) {
    if (part.name == "train") train = &part;
    validated = validated || (part.name == "valid" && part.samples > 0);
  }
  if (train == nullptr) return found;
  if (facts.counted) not_taught(facts, *train, found);
  if (facts.counted) of_one_patient(facts, *train, found);
  for (const Part& part : facts.parts) {
    if (&part == train || part.samples == 0) continue;
    if (facts.counted) not_judged(facts, *train, part, found);
    too_small(facts, part, found);
  }
  if (!validated)
    found.push_back({weight::kPoor + 8, "no_validation",
                     "there is no validation part: no figure shows when to stop, and no best.safetensors is kept; " +
                         std::string(facts.by_share ? "set data.split.valid=0.1" : "name one beside the others")});
  return found;
}

}  // namespace dtrain
