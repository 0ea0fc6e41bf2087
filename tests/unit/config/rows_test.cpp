// What the rows of networks, optimizers and losses mean for a configuration.
#include "dtrain/base/rows.hpp"

#include <set>

#include "scratch_config.hpp"
#include "support/catch.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

template <class Row>
std::set<std::string> keys_of(const RowList<Row>& rows) {
  std::set<std::string> keys;
  for (const Row* row : rows) keys.insert(row->keys.begin(), row->keys.end());
  return keys;
}

std::string row_errors(const std::vector<std::string>& overrides) {
  try {
    from_overrides(overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> with(std::vector<std::string> overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

std::string size_of(int64_t side) {
  return "data.image.size=[" + std::to_string(side) + ", " + std::to_string(side) + "]";
}

}  // namespace

TEST_CASE("task, channels and sizes of a configuration follow from the network") {
  for (const NetworkKind* kind : networks()) {
    INFO(kind->name);
    const std::vector<std::string> plain = {"data.format=synthetic", "model.name=" + kind->name};
    const Experiment e = from_overrides(with(plain, size_of(kind->least_side))).experiment;
    CHECK(e.model.kind == kind);
    CHECK(kind->serves(e.task));
    CHECK(e.data.image.channels == kind->image_channels);
    if (kind->least_side > 1)
      CHECK_THAT(row_errors(with(plain, size_of(kind->least_side - 1))), Catch::Contains(kind->name + " needs a data"));
    CHECK(row_errors(with(plain, "cuda_graphs=true")).empty() == random_key_of(e.model).empty());
  }
}

TEST_CASE("a key that only some networks, optimizers or losses read is one with them alone") {
  const std::vector<std::string> base = {"data.format=synthetic"};
  const auto check_keys = [&](const std::vector<std::string>& overrides, const auto& row, const auto& rows,
                              const std::string& group) {
    const auto values = from_overrides(overrides).values;
    for (const std::string& key : keys_of(rows)) {
      INFO(group << row.name << ", " << key);
      // Without a value of their own such keys are not printed.
      if (key != "pos_weight" && key != "class_weight") CHECK(values.contains(group + key) == reads(row, key));
    }
  };
  for (const NetworkKind* kind : networks())
    check_keys(with(base, "model.name=" + kind->name), *kind, networks(), "model.");
  for (const OptimizerKind* kind : optimizers()) {
    const auto chosen = with(base, "optimizer.name=" + kind->name);
    check_keys(chosen, *kind, optimizers(), "optimizer.");
  }
  for (const LossKind* kind : losses())
    for (const Task task : {Task::multilabel, Task::multiclass}) {
      const auto chosen = with(with(base, "loss.name=" + kind->name), std::string("task=") + name_of(task));
      CHECK(row_errors(chosen).empty() == kind->serves(task));
      if (kind->serves(task)) check_keys(chosen, *kind, losses(), "loss.");
    }
}

TEST_CASE("what is not set of an optimizer has its own default, and what is set holds") {
  for (const OptimizerKind* kind : optimizers()) {
    INFO(kind->name);
    const std::vector<std::string> chosen = {"data.format=synthetic", "optimizer.name=" + kind->name};
    const OptimizerOptions wanted = optimizer_defaults(*kind), found = from_overrides(chosen).experiment.optimizer;
    CHECK(found.kind == kind);
    CHECK(found.learning_rate == wanted.learning_rate);
    CHECK(found.weight_decay == wanted.weight_decay);
    CHECK(found.momentum == wanted.momentum);
    CHECK(std::pair(found.beta1, found.beta2) == std::pair(wanted.beta1, wanted.beta2));
    CHECK(found.eps == wanted.eps);
    CHECK(found.rho == wanted.rho);
    // The order of the two does not matter.
    const auto later = from_overrides({"data.format=synthetic", "optimizer.learning_rate=0.7", chosen[1]}).experiment;
    CHECK(later.optimizer.learning_rate == 0.7);
    if (!reads(*kind, "eps")) continue;
    CHECK(from_overrides({chosen[0], "optimizer.eps=0.3", chosen[1]}).experiment.optimizer.eps == 0.3);
  }
  CHECK(from_overrides({"data.format=synthetic"}).experiment.optimizer.eps ==
        optimizer_defaults(default_optimizer()).eps);
}

TEST_CASE("a loss is suggested to those who call it by another program's name") {
  for (const LossKind* kind : losses())
    for (const std::string& theirs : kind->also_called)
      CHECK_THAT(row_errors({"data.format=synthetic", "loss.name=" + theirs}),
                 Catch::Contains("did you mean '" + kind->name + "'?"));
}

TEST_CASE("an empty name is no row") {
  for (const char* key : {"model.name", "loss.name", "optimizer.name", "data.format"})
    CHECK_THAT(row_errors({"data.format=synthetic", std::string(key) + "=\"\""}),
               Catch::Contains(std::string(key) + " wants "));
}
