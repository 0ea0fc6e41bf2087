// Where in a picture a network found a class.
#include "dtrain/model/class_maps.hpp"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::square;

TEST_CASE("a network says of itself that it ends in global pooling exactly where its last two operators are that") {
  for (const NetworkKind* kind : networks()) {
    INFO(kind->name);
    const NetworkShape shape = square(*kind, std::max<int64_t>(kind->least_side, 32));
    ModelOptions options;
    options.kind = kind;
    const auto network = kind->make(options, shape);
    const std::vector<PassTape::Step> steps = network->tape(shape, false).steps;
    const bool ends =
        steps.at(steps.size() - 2).op == PassTape::Op::global_pool && steps.back().op == PassTape::Op::linear;
    CHECK(network->ends_in_pooling() == ends);
    if (ends) continue;
    CHECK_THROWS_AS(network->forward_pooled(at::zeros({1, shape.channels, 32, 32})), InternalError);
    CHECK_THROWS_AS(class_activation_maps(*network, at::zeros({1, 8, 2, 2})), InternalError);
  }
}

TEST_CASE("the mean of a class activation map plus the last layer's bias is the logit of a forward pass") {
  const auto kind = GENERATE(network_kind("resnet18"), network_kind("densenet121"));
  INFO(kind->name);
  at::set_num_threads(1);
  ModelOptions options;
  options.kind = kind;
  const NetworkShape shape = square(*kind, 96);
  const auto network = make_network(options, shape, 1);
  network->eval();
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : network->named_parameters())
    if (parameter.name == network->head().back()) parameter.tensor.copy_(at::tensor({0.5F, -2.0F, 3.0F}));
  const at::Tensor images = test::keyed_normal({2, shape.channels, 96, 96}, 4);
  const Network::PooledPass pass = network->forward_pooled(images);
  CHECK(test::same_bits(pass.logits, network->forward(images)));
  REQUIRE(pass.maps.sizes().slice(2) == at::IntArrayRef({3, 3}));
  const at::Tensor maps = class_activation_maps(*network, pass.maps);
  REQUIRE(maps.sizes() == at::IntArrayRef({2, 3, 3, 3}));
  CHECK(test::relative_error(maps.mean({2, 3}) + at::tensor({0.5F, -2.0F, 3.0F}), pass.logits) < 1e-5);
  // Each place stands for itself.
  at::Tensor one_place = at::zeros_like(pass.maps);
  one_place.select(3, 2).select(2, 1).copy_(pass.maps.select(3, 2).select(2, 1));
  const at::Tensor there = class_activation_maps(*network, one_place);
  CHECK(test::relative_error(there.select(3, 2).select(2, 1), maps.select(3, 2).select(2, 1)) < 1e-5);
  CHECK(there.count_nonzero().item<int64_t>() == 2 * 3);
}
