#include "dtrain/config/study_description.hpp"

#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "scratch_config.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static StudyDescription study_of(const std::string& text, bool tiny = false) {
  const TemporaryFolder folder;
  std::ofstream(folder / "s.yaml") << text;
  REQUIRE(is_study(folder / "s.yaml"));
  return read_study(folder / "s.yaml", tiny);
}

static std::string study_refusal(const std::string& text, int code = 78) {
  try {
    study_of(text);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    const std::string what = error.what();
    return what.substr(what.find("s.yaml"));
  }
  return "accepted";
}

TEST_CASE("a study file says what a sweep is asked for, with values as the command line takes them") {
  const StudyDescription study = study_of(R"(title: Rates
config: [a.yaml, b.yaml]
overrides: {epochs: 20, data.image.size: [64, 96], schedule: {warmup: 1 epoch, decay: {name: cosine}}, data.root: "${X:-a b}"}
ranks: [1, 2, 14]
over:
  - {optimizer.learning_rate: [0.1, 1e-3]}
  - {data.format: [image_folder, packed], data.labels: ["a,b", null]}
repeat: 3
sample: {kind: cells, count: 12, size: [128, 160]}
pack: {to: tfrecord, samples_per_shard: 64, expand: [hflip, vflip]}
expected: {source: a paper, figures: [70 min at 1, "6.7 min at 16: 10.5 ×"]}
)");
  CHECK(study.title == "Rates");
  REQUIRE(study.configurations.size() == 2);
  CHECK(std::filesystem::path(study.configurations[1]).filename() == "b.yaml");
  CHECK(study.overrides == std::vector<std::string>{"epochs=20", "data.image.size=[64, 96]",
                                                    "schedule={warmup: 1 epoch, decay: {name: cosine}}",
                                                    "data.root=\"${X:-a b}\""});
  CHECK(study.ranks == std::vector<int64_t>{1, 2, 14});
  REQUIRE(study.over.size() == 3);
  CHECK(study.over[0].values == std::vector<std::string>{"0.1", "1e-3"});
  CHECK(study.over[2].values == std::vector<std::string>{"\"a,b\"", "null"});
  CHECK((!study.over[0].beside && !study.over[1].beside && study.over[2].beside));
  CHECK(study.repeat == 3);
  CHECK(study.sample->width == 160);
  CHECK(study.pack->expand == std::vector<std::string>{"hflip", "vflip"});
  CHECK(study.expected.size() == 2);
  CHECK(study.source == "a paper");
}

TEST_CASE("the tiny variant replaces what it names, and its overrides come on top") {
  const std::string text = R"(config: a.yaml
overrides: {epochs: 20}
ranks: [1, 14]
over: {seed: [1, 2]}
sample: {kind: cells, count: 1000}
tiny: {overrides: {epochs: 2}, ranks: [1, 2], over: , sample: {kind: cells, count: 12}}
)";
  const StudyDescription tiny = study_of(text, true);
  CHECK(tiny.overrides == std::vector<std::string>{"epochs=20", "epochs=2"});
  CHECK(tiny.ranks == std::vector<int64_t>{1, 2});
  CHECK(tiny.over.empty());
  CHECK(tiny.sample->count == 12);
  CHECK(study_of(text).over.size() == 1);
  CHECK_THROWS_AS(study_of("config: a.yaml\n", true), UsageError);
}

TEST_CASE("what is wrong in a study file is told with line and key, all at once") {
  CHECK(study_refusal("config: a.yaml\nrank: [1]\n") ==
        "s.yaml:2:1: unknown key 'rank' in a study (did you mean 'ranks'?)");
  CHECK(study_refusal("title: x\n").find("a study names its configuration") != std::string::npos);
  const std::string both = study_refusal("config: a.yaml\nranks: [1, 0]\nrepeat: many\n");
  CHECK(holds(both, "s.yaml:2:12: ranks wants a whole number from 1 on, not '0'"));
  CHECK(holds(both, "s.yaml:3:9: repeat wants a whole number from 1 on, not 'many'"));
  CHECK(holds(study_refusal("config: a.yaml\noverrides:\n  optimizer: {lerning_rate: 1}\n"),
              "s.yaml:3:3: unknown key 'optimizer.lerning_rate' (did you mean 'learning_rate'?)"));
  CHECK(
      holds(study_refusal("config: a.yaml\nover: {epochs: [2, fast]}\n"), "s.yaml:2:20: epochs wants a whole number"));
  CHECK(holds(study_refusal("config: a.yaml\nover: {epochs: 2}\n"), "s.yaml:2:8: over.epochs wants a list of values"));
  CHECK(holds(study_refusal("config: a.yaml\nover: [{epochs: [2, 3], seed: [1]}]\n"),
              "seed has another number of values"));
  CHECK(holds(study_refusal("config: a.yaml\ntiny: {title: x}\n"), "s.yaml:2:8: unknown key 'title' in tiny"));
  CHECK(holds(study_refusal("config: a.yaml\nsample: {kind: dogs}\n"), "sample.kind wants xray, chips or cells"));
  CHECK(holds(study_refusal("config: a.yaml\nexpected: {figures: [1]}\n"), "expected has no source"));
  CHECK(holds(study_refusal("config: a.yaml\nconfig: b.yaml\n"), "duplicate key 'config'"));
  CHECK(holds(study_refusal("study: \"dtrain-study-1\"\nranks: [1]\n", 64), "has written into a study's folder"));
}

TEST_CASE("a configuration is no study") {
  CHECK_FALSE(is_study(source_folder() + "/configs/quickstart.yaml"));
  CHECK_FALSE(is_study(source_folder() + "/configs"));
  CHECK_FALSE(is_study("/no/such/file.yaml"));
}
