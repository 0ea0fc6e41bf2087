#include "dtrain/study/study_file.hpp"

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static StudyAsked asked() {
  return {.plan = {.ranks = {1, 2}, .over = {{"optimizer.name", {"sgd", "adam"}}}, .zip = false, .repeat = 3},
          .configuration = {{"epochs", "5"}, {"data.csv.separator", "\": \"\n"}}};
}

TEST_CASE("study.yaml is YAML that says what was asked") {
  CHECK(study_yaml(asked()) ==
        "# What dtrain sweep was asked for. A later start goes on here only if it asks for the same.\n"
        "study: \"dtrain-study-1\"\n"
        "ranks: [1,2]\n"
        "over: {\"optimizer.name\":[\"sgd\",\"adam\"]}\n"
        "zip: false\n"
        "repeat: 3\n"
        "folds: 0\n"
        "configuration:\n"
        "  \"data.csv.separator\": \"\\\": \\\"\\n\"\n"
        "  \"epochs\": \"5\"\n");
  CHECK(study_difference(study_yaml(asked()), "study.yaml", asked()).empty());
}

TEST_CASE("what a study says to people is in study.yaml, and may change") {
  StudyAsked told = asked();
  told.words.title = "Rates";
  told.words.expected = {"70 min at 1"};
  told.words.source = "a paper";
  CHECK(study_yaml(told).find("title: \"Rates\"\nexpected: {\"source\":\"a paper\",\"figures\":[\"70 min at 1\"]}\n") !=
        std::string::npos);
  const StudyWords words = words_of_study(study_yaml(told), "study.yaml");
  CHECK(words.title == "Rates");
  CHECK(words.source == "a paper");
  CHECK(words.expected == told.words.expected);
  CHECK(words_of_study(study_yaml(asked()), "study.yaml").title.empty());
  CHECK_THROWS_AS(words_of_study("study: \"dtrain-study-1\"\ntitle: 3\nconfiguration:\n", "study.yaml"), DataError);
  CHECK(study_difference(study_yaml(told), "study.yaml", asked()).empty());
  told.plan.over.push_back({"data.root", {"x", "y"}, true});
  CHECK(study_yaml(told).find("beside: [\"data.root\"]") != std::string::npos);
}

TEST_CASE("study.yaml says what --advise was asked, and gives it back") {
  StudyAsked advised = asked();
  advised.advice = AdviceAsked{.present = {"sqrt", "2 epochs"}, .epochs = 5, .of_epochs = 50, .seeds = 3};
  const std::string text = study_yaml(advised);
  CHECK(text.find("advise: {\"epochs\":5,\"of_epochs\":50,\"present\":[\"sqrt\",\"2 epochs\"],\"seeds\":3}\n") !=
        std::string::npos);
  CHECK(advice_of_study(text, "study.yaml") == advised.advice);
  CHECK(study_difference(text, "study.yaml", advised).empty());
  CHECK_FALSE(advice_of_study(study_yaml(asked()), "study.yaml"));
  std::string torn = text;
  torn.replace(torn.find("\"seeds\":3"), 9, "\"sleep\":3");
  CHECK_THROWS_AS(advice_of_study(torn, "study.yaml"), DataError);
}

TEST_CASE("axes in any order are the same study at the next start") {
  StudyAsked study = asked();
  study.plan.over = {{"optimizer.name", {"sgd"}}, {"epochs", {"1", "2"}}};
  CHECK(study_difference(study_yaml(study), "study.yaml", study).empty());
}

TEST_CASE("what differs from an earlier start is named") {
  const std::string text = study_yaml(asked());
  StudyAsked now = asked();
  now.plan.ranks = {1, 2, 4};
  CHECK(study_difference(text, "study.yaml", now) == "--ranks was [1,2] and is now [1,2,4]");
  now = asked();
  now.plan.over[0].values = {"sgd"};
  CHECK(study_difference(text, "study.yaml", now) ==
        "--over was {\"optimizer.name\":[\"sgd\",\"adam\"]} and is now {\"optimizer.name\":[\"sgd\"]}");
  now = asked();
  now.configuration["epochs"] = "6";
  CHECK(study_difference(text, "study.yaml", now) == "epochs was 5 and is now 6");
  now = asked();
  now.configuration.erase("epochs");
  CHECK(study_difference(text, "study.yaml", now) == "epochs was 5 and is now not set");
  now = asked();
  now.configuration["seed"] = "1";
  CHECK(study_difference(text, "study.yaml", now) == "seed was not set and is now 1");
}

TEST_CASE("a file that dtrain sweep did not write is refused") {
  for (const char* text : {"", "a", "study: 1\n", "study: \"dtrain-study-1\"\n", "ranks: [\n",
                           "study: \"dtrain-study-1\"\n  \"epochs\"\n", "  \n", "  x\n"})
    CHECK_THROWS_AS(study_difference(text, "study.yaml", asked()), DataError);
}
