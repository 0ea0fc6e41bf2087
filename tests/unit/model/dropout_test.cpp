#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "dtrain/base/error.hpp"
#include "dtrain/model/layers.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

static at::Tensor mask_of(double p, uint64_t seed, int64_t step, int64_t logical_rank,
                          at::IntArrayRef shape = {40, 250}) {
  KeyedDropout dropout(p);
  dropout.set_key(seed, step, logical_rank);
  return dropout(at::ones(shape));
}

TEST_CASE("dropout is a pure function of seed, step and logical rank") {
  const at::Tensor mask = mask_of(0.5, 1, 2, 3);
  CHECK(test::same_bits(mask, mask_of(0.5, 1, 2, 3)));
  CHECK_FALSE(test::same_bits(mask, mask_of(0.5, 2, 2, 3)));
  CHECK_FALSE(test::same_bits(mask, mask_of(0.5, 1, 3, 3)));
  CHECK_FALSE(test::same_bits(mask, mask_of(0.5, 1, 2, 4)));
}

TEST_CASE("dropout drops the share p and keeps the mean") {
  const at::Tensor mask = mask_of(0.2, 7, 0, 0);
  const double dropped = (mask == 0).to(at::kDouble).mean().item<double>();
  CHECK(dropped == Approx(0.2).margin(0.015));  // 10,000 draws: 0.015 is 3.75 deviations, and the key is fixed
  CHECK((((mask == 0) | (mask == 1.25)).all().item<bool>()));
}

TEST_CASE("dropout in evaluation mode, or with probability 0, changes nothing and needs no key") {
  KeyedDropout dropout(0.5);
  dropout.eval();
  CHECK(test::same_bits(dropout(at::ones({2, 8})), at::ones({2, 8})));
  const KeyedDropout none(0);
  CHECK(test::same_bits(none(at::ones({2, 8})), at::ones({2, 8})));
}

TEST_CASE("training with dropout before a key is set is an internal error") {
  const KeyedDropout dropout(0.5);
  CHECK_THROWS_AS(dropout(at::ones({2, 8})), InternalError);
}

TEST_CASE("the gradient passes where dropout let the value pass") {
  KeyedDropout dropout(0.5);
  dropout.set_key(1, 2, 3);
  const at::Tensor x = at::ones({4, 16}).set_requires_grad(true);
  dropout(x).sum().backward();
  CHECK(test::same_bits(x.grad(), mask_of(0.5, 1, 2, 3, {4, 16})));
}

TEST_CASE("the dropout of small_cnn follows the key and not the memory format") {
  ModelOptions options;
  options.kind = network_kind("small_cnn");
  // 7x5 positions are left before the dense layer, so that the two formats order the features differently.
  const auto network = make_network(options, {.channels = 3, .height = 112, .width = 80, .outputs = 2}, 1);
  test::to_float64(*network);
  const at::Tensor images = test::keyed_normal({3, 3, 112, 80}, 5).to(at::kDouble);
  const auto logits = [&](int64_t step, at::MemoryFormat format) {
    network->set_random_key(9, step, 0);
    return network->forward(images.contiguous(format)).detach();
  };
  const at::Tensor first = logits(4, at::MemoryFormat::Contiguous);
  CHECK(test::same_bits(first, logits(4, at::MemoryFormat::Contiguous)));
  CHECK(test::relative_error(logits(4, at::MemoryFormat::ChannelsLast), first) < 1e-12);
  CHECK(test::relative_error(logits(5, at::MemoryFormat::Contiguous), first) > 1e-3);
}
