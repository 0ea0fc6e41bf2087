// Runs of older programs continue: a key that a checkpoint lacks has the value of what was done before the key existed.
#include <fstream>
#include <set>

#include "dtrain/config/schema.hpp"
#include "dtrain/config/sources.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"
#include "unit/config/scratch_config.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

using Values = std::map<std::string, std::string>;

/// The keys that the fingerprint of the first release has: its checkpoints hold each of them that had an effect.
std::set<std::string> first_release_keys() {
  std::ifstream file(test::source_folder() + "/tests/support/reference/first_release_keys.txt");
  std::set<std::string> keys;
  for (std::string line; std::getline(file, line);) keys.insert(line);
  REQUIRE(keys.size() == 108);
  return keys;
}

/// The value that older runs are taken to have, read and printed again.
std::string printed_again(const Key& key, const std::string& value) {
  const YamlSource source{"older runs", "", "/", 0, false};
  std::vector<Problem> problems;
  const std::optional<YamlNode> node = parse_value(value, source, problems);
  if (!node || !problems.empty()) return "no YAML";
  const std::string wrong = key.codec.read(*node, {"/", ""});
  return wrong.empty() ? key.codec.print() : wrong;
}

/// The reasons why older runs could not continue with these keys, one sentence each.
std::vector<std::string> judge(const std::vector<Key>& keys, const std::set<std::string>& first) {
  std::vector<std::string> wrong;
  std::set<std::string> names;
  for (const Key& key : keys) {
    names.insert(key.name);
    if (key.in_fingerprint && !first.contains(key.name) && key.in_older_runs.empty())
      wrong.push_back(key.name + " does not say what older runs had: .older_runs_had(\"value\") on its line");
    if (!key.in_older_runs.empty() && printed_again(key, key.in_older_runs) != key.in_older_runs)
      wrong.push_back(key.name + ": older runs had " + key.in_older_runs + ", which is printed as " +
                      printed_again(key, key.in_older_runs));
  }
  for (const std::string& name : first)
    if (!names.contains(name)) wrong.push_back(name + " is gone, so that no run that has it can go on");
  return wrong;
}

/// A schema of three keys; the fields must outlive it.
struct MadeUp {
  int64_t old_number = 1;
  double later = 0.5;
  bool free = true;
  std::vector<Key> keys;

  MadeUp() {
    keys.emplace_back("group.old", whole_codec(old_number, {}), "Of the first release.");
    keys.emplace_back("group.later", real_codec(later, {}), "Came later; its default is not what was done before.")
        .older_runs_had("0");
    keys.emplace_back("group.free", flag_codec(free), "Changes no result.").outside_fingerprint();
  }

  ConfigDifferences differences(const Values& then, const Values& now, const std::vector<std::string>& may = {}) const {
    return config_differences(keys, then, now, may);
  }
};

}  // namespace

TEST_CASE("every key of the fingerprint that came after the first release says what older runs had") {
  Experiment any;
  for (const std::string& sentence : judge(describe(any), first_release_keys())) {
    INFO(sentence);
    CHECK(sentence.empty());
  }
}

TEST_CASE("a key that says nothing of older runs, or a value that is not one, is found") {
  MadeUp made;
  CHECK(judge(made.keys, {"group.old"}).empty());
  CHECK(judge(made.keys, {"group.old", "group.gone"}).size() == 1);
  const std::vector<std::string> silent = judge(made.keys, {});
  REQUIRE(silent.size() == 1);
  CHECK_THAT(silent[0], Catch::StartsWith("group.old does not say"));
  made.keys[1].older_runs_had("none");
  CHECK(judge(made.keys, {"group.old"}).size() == 1);
  made.keys[1].older_runs_had("0.0");  // compared as text, so it must be the text that is printed
  CHECK(judge(made.keys, {"group.old"}).size() == 1);
}

TEST_CASE("a key that a checkpoint does not hold counts as what older runs had, and differs where that differs") {
  const MadeUp made;
  CHECK(made.differences({{"group.old", "1"}}, {{"group.old", "1"}, {"group.later", "0"}}).none());
  const auto differ = made.differences({{"group.old", "1"}}, {{"group.old", "1"}, {"group.later", "0.5"}});
  CHECK(differ.unknown.empty());
  CHECK(differ.changed == std::vector<std::string>{"group.later was 0, as before this key existed, and is now 0.5"});
  CHECK(made.differences({{"group.old", "1"}}, {{"group.old", "1"}, {"group.later", "0.5"}}, {"group.later"}).none());
  // If a checkpoint has the key, its value is used.
  CHECK(made.differences({{"group.old", "1"}, {"group.later", "0.5"}}, {{"group.old", "1"}, {"group.later", "0.5"}})
            .none());
  CHECK_FALSE(made.differences({{"group.old", "1"}, {"group.later", "0.5"}}, {{"group.old", "1"}, {"group.later", "0"}})
                  .none());
}

TEST_CASE("a key of the first release that a checkpoint does not hold is refused by its name") {
  const MadeUp made;
  CHECK(made.differences({}, {{"group.old", "1"}}).changed ==
        std::vector<std::string>{"group.old was not set and is now 1"});
  CHECK(made.differences({{"group.old", "1"}}, {}).changed ==
        std::vector<std::string>{"group.old was 1 and is now not set"});
}

TEST_CASE("a key that this program does not have tells of a newer one, whatever may differ") {
  const MadeUp made;
  const auto differ = made.differences({{"group.old", "1"}, {"group.newer", "7"}, {"group.free", "false"}},
                                       {{"group.old", "1"}}, {"group.newer"});
  CHECK(differ.unknown == std::vector<std::string>{"group.newer"});
  CHECK(differ.changed.empty());
}

TEST_CASE("keys outside the fingerprint may differ, in checkpoints of a program that counted them in too") {
  CHECK(config_differences(Values{{"seed", "1"}, {"data.allow_links", "true"}}, Values{{"seed", "1"}}, {}).none());
}

TEST_CASE("a key whose default has changed is what the run began with, unless it is set") {
  const auto config = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"data.format=synthetic", "model.name=resnet18", "data.image.size=[32, 32]"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return load_config({.files = {}, .environment = false, .overrides = all});
  };
  const auto kept = [](Config given, const Values& run) {
    keep_values_of_run(given, run);
    CHECK(given.values.at("model.fused").text == (given.experiment.model.fused ? "true" : "false"));
    return given.experiment.model.fused;
  };
  CHECK(config({}).experiment.model.fused);
  CHECK(keys_of_the_run(config({})) == std::vector<std::string>{"model.fused"});
  CHECK_FALSE(kept(config({}), {}));
  CHECK_FALSE(kept(config({}), {{"model.fused", "false"}}));
  CHECK(kept(config({}), {{"model.fused", "true"}}));
  CHECK(kept(config({"model.fused=true"}), {}));  // a difference, which a resume refuses
  CHECK(keys_of_the_run(config({"model.fused=true"})).empty());
  CHECK(keys_of_the_run(config({"model.name=small_cnn"})) == std::vector<std::string>{"model.fused"});
}

TEST_CASE("auto stands for what the run found, a number is one more difference, and a new find can be asked for") {
  const auto given = [](const std::string& batch) {
    return from_overrides({"data.format=synthetic", "batch=" + batch});
  };
  const Values run = fingerprint_values(given("{per_rank: 37}"));
  Config open = given("{per_rank: auto}");
  CHECK(open.experiment.batch.is_auto());
  CHECK(open.values.at("batch.per_rank").text == "auto");
  keep_values_of_run(open, run, {"batch.per_rank"});
  CHECK(open.experiment.batch.is_auto());
  keep_values_of_run(open, fingerprint_values(given("{global: 64}")));
  CHECK(open.experiment.batch.is_auto());  // that run has found none
  keep_values_of_run(open, run);
  CHECK(open.experiment.batch.per_rank == 37);
  CHECK(config_differences(run, fingerprint_values(open), {}).none());

  Config number = given("{per_rank: 36}");
  keep_values_of_run(number, run);
  CHECK(number.experiment.batch.per_rank == 36);
  CHECK(config_differences(run, fingerprint_values(number), {}).changed ==
        std::vector<std::string>{"batch.per_rank was 37 and is now 36"});
}

TEST_CASE("what a beginning run finds is printed in the place of auto, and loads again") {
  Config config = from_overrides({"data.format=synthetic", "batch.per_rank=auto"});
  CHECK(from_text(config_yaml(config, false, false)).experiment.batch.is_auto());
  settle_batch(config, 37);
  CHECK_FALSE(config.experiment.batch.is_auto());
  CHECK(from_text(config_yaml(config, false, true)).experiment.batch.per_rank == 37);
  CHECK(fingerprint_values(config).at("batch.per_rank") == "37");
  CHECK_FALSE(from_overrides({"data.format=synthetic", "batch.global=64"}).experiment.batch.is_auto());
}
