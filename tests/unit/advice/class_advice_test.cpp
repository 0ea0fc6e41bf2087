#include "dtrain/advice/class_advice.hpp"

#include <algorithm>

#include "dtrain/advice/label_advice.hpp"
#include "dtrain/advice/patient_advice.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"
#include "unit/advice/sentence_of.hpp"

using namespace dtrain;
using test::holds;
using test::sentence_of;

// Two classes, both well met in both parts.
static ClassFacts ordinary() {
  ClassFacts facts;
  facts.classes = {"Mass", "Edema"};
  facts.parts = {{"train", 800, 0, {100, 40}, {700, 760}},
                 {"valid", 200, 0, {25, 10}, {175, 190}},
                 {"test", 0, 0, {0, 0}, {0, 0}}};
  return facts;
}

TEST_CASE("parts that hold enough of every class are no finding") { CHECK(class_advice(ordinary()).empty()); }

TEST_CASE("a class without a training sample is named with what deals some in") {
  ClassFacts facts = ordinary();
  facts.parts[0].positives[1] = 0;
  const auto found = class_advice(facts);
  REQUIRE(found.size() == 1);
  CHECK(found[0].weight >= weight::kWrong);
  CHECK(holds(found[0].sentence, "no training sample shows Edema (1 of 2 classes)"));
  CHECK(holds(found[0].sentence, "data.split.stratify=true"));
  facts.by_share = false;
  CHECK_FALSE(holds(class_advice(facts).at(0).sentence, "stratify"));
  facts.counted = false;
  CHECK(class_advice(facts).empty());
}

TEST_CASE("a class with a handful of training samples is named") {
  ClassFacts facts = ordinary();
  facts.parts[0].positives[1] = 4;
  CHECK(holds(sentence_of(class_advice(facts), "class_hardly_trained"), "fewer than 5 training samples show Edema"));
  facts.parts[0].positives[1] = 5;
  CHECK(class_advice(facts).empty());
}

TEST_CASE("a class of one training patient is told, with whether another part has it") {
  ClassFacts facts = ordinary();
  facts.parts[0].positive_patients = {30, 1};
  const std::string sentence = sentence_of(class_advice(facts), "class_of_one_patient");
  CHECK(holds(sentence, "all training samples of Edema are of one patient"));
  CHECK_FALSE(holds(sentence, "no other part"));
  facts.parts[1].positives[1] = 0;
  CHECK(holds(sentence_of(class_advice(facts), "class_of_one_patient"), "no other part has a sample of Edema"));
  facts.parts[0].positive_patients = {30, 0};  // of unknown patients
  CHECK(sentence_of(class_advice(facts), "class_of_one_patient").empty());
}

TEST_CASE("a class that every training sample has teaches nothing") {
  ClassFacts facts = ordinary();
  facts.parts[0].negatives[0] = 0;
  CHECK(holds(sentence_of(class_advice(facts), "class_without_negatives"), "has Mass"));
}

TEST_CASE("a class that a part cannot judge, and one that it hardly can") {
  ClassFacts facts = ordinary();
  facts.parts[1].positives = {0, 4};
  const auto found = class_advice(facts);
  CHECK(holds(sentence_of(found, "class_without_metric"), "AUROC of Mass cannot be computed: the valid part"));
  CHECK(holds(sentence_of(found, "class_with_few"), "fewer than 5 samples of Edema"));
  CHECK(holds(sentence_of(found, "class_with_few"), "raise data.split.valid"));
  facts.by_share = false;  // folders train/ and test/: a share of the first validates
  CHECK(holds(sentence_of(class_advice(facts), "class_with_few"), "raise data.split.valid"));
  facts.shared_valid = false;
  CHECK(holds(sentence_of(class_advice(facts), "class_with_few"), "put more into it"));
  facts.by_share = facts.shared_valid = true;
  facts.by_fold = true;
  CHECK(holds(sentence_of(class_advice(facts), "class_with_few"), "fewer folds"));
}

TEST_CASE("a small part, few patients, no validation part") {
  ClassFacts facts = ordinary();
  facts.parts[1].samples = 4;
  CHECK(holds(sentence_of(class_advice(facts), "few_samples"), "4 samples, so each of them moves its figures by 25 %"));
  facts.parts[1] = {"valid", 200, 9, {25, 10}, {175, 190}};
  CHECK(holds(sentence_of(class_advice(facts), "few_patients"), "200 samples of 9 patients"));
  facts.parts[1].patients = 10;
  CHECK(class_advice(facts).empty());
  facts.parts[1].samples = 0;
  CHECK(holds(sentence_of(class_advice(facts), "no_validation"), "data.split.valid=0.1"));
}

TEST_CASE("masks are judged by the masks that show a class") {
  ClassFacts facts = ordinary();
  facts.task = Task::segmentation;
  facts.parts[0] = {"train", 800, 0, {0, 40}, {0, 0}};
  facts.parts[1] = {"valid", 200, 0, {25, 0}, {0, 0}};
  const auto found = class_advice(facts);
  CHECK(holds(sentence_of(found, "class_without_training"), "no training mask shows Mass"));
  CHECK(holds(sentence_of(found, "class_without_metric"), "IoU of Edema"));
}

TEST_CASE("patients with several samples in a split by sample are told, unless a leak tells more") {
  PatientFacts facts{.patients = 27, .samples = 90};
  CHECK(holds(patient_advice(facts).at(0).sentence, "data.split.by=patient"));
  CHECK(holds(patient_advice(facts).at(0).sentence, "27 of 90 samples"));
  PatientFacts whole = facts, leaking = facts, folders = facts, single = facts, none;
  whole.by_patient = true;
  leaking.in_two_parts = 3;
  folders.by_share = false;
  single.samples = 27;
  PatientFacts unused = none;
  unused.unused = "PatientID";
  unused.group_key = "data.csv.group";
  CHECK(holds(patient_advice(unused).at(0).sentence,
              "'data.csv.group=\"PatientID\"' data.split.by=patient keeps each in one part"));
  for (const PatientFacts& other : {whole, leaking, folders, single, none}) CHECK(patient_advice(other).empty());
}

TEST_CASE("labels in two spellings are a finding each") {
  const auto found = label_advice({"CAT", "cat", "dog"}, "the class folders");
  REQUIRE(found.size() == 1);
  CHECK(holds(found[0].sentence, "'CAT', 'cat' differ only in case or spaces"));
  CHECK(holds(found[0].sentence, "one spelling in the class folders"));
}
