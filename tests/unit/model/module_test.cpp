#include "dtrain/model/module.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>

#include "support/catch.hpp"

using namespace dtrain;

namespace {

struct Leaf : Module {
  Leaf() {
    weight = register_parameter("weight", at::ones({2}));
    register_buffer("mean", at::zeros({2}));
  }
  at::Tensor weight;
};

struct Tree : Module {
  Tree() {
    register_module("second", std::make_shared<Leaf>());
    own = register_parameter("own", at::ones({1}));
    register_module("first", std::make_shared<Leaf>());
  }
  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
  at::Tensor own;
};

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  return names;
}

}  // namespace

TEST_CASE("a module lists its own tensors first, then its parts in the order of their registration") {
  const Tree tree;
  CHECK(names_of(tree.named_parameters()) == std::vector<std::string>{"own", "second.weight", "first.weight"});
  CHECK(names_of(tree.named_buffers()) == std::vector<std::string>{"second.mean", "first.mean"});
  CHECK(tree.own.requires_grad());
  CHECK(tree.named_parameters()[0].tensor.is_same(tree.own));
}

TEST_CASE("a module's mode is that of all below") {
  Tree tree;
  tree.eval();
  for (const Module::Named& below : tree.modules()) CHECK_FALSE(below.module->is_training());
  tree.train();
  for (const Module::Named& below : tree.modules()) CHECK(below.module->is_training());
}

TEST_CASE("a module that is kept in evaluation mode stays in it, and the others do not") {
  Tree tree;
  Module* const kept = tree.modules()[1].module;
  kept->keep_in_evaluation(true);
  CHECK_FALSE(kept->is_training());
  tree.train();
  for (const Module::Named& below : tree.modules()) CHECK(below.module->is_training() == (below.module != kept));
  kept->keep_in_evaluation(false);
  tree.train();
  CHECK(kept->is_training());
}

TEST_CASE("a name that no file could tell from another is refused") {
  Tree tree;
  for (const char* name : {"", "a.b", "own", "first"}) {
    CHECK_THROWS_AS(tree.register_parameter(name, at::ones({1})), std::logic_error);
    CHECK_THROWS_AS(tree.register_buffer(name, at::ones({1})), std::logic_error);
    CHECK_THROWS_AS(tree.register_module(name, std::make_shared<Leaf>()), std::logic_error);
  }
}
