#include "dtrain/train/replica.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "dtrain/model/network.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("weight decay leaves biases and norms alone where that is asked for") {
  const bool decay_norms = GENERATE(true, false);
  OptimizerOptions sgd = optimizer_defaults(*optimizer_kind("sgd"));
  sgd.weight_decay = 0.5;
  sgd.decay_norms = decay_norms;
  ModelOptions model;
  model.kind = network_kind("densenet121");
  const std::shared_ptr<Network> network = make_network(model, {3, 32, 32, 2}, 1);
  for (const NamedTensor& parameter : network->named_parameters()) at::Tensor(parameter.tensor).detach().fill_(1);
  Replica replica(network, at::MemoryFormat::ChannelsLast, sgd);
  const bool reordered = GENERATE(false, true);  // as after the first backward pass
  if (reordered) {
    std::vector<size_t> order(network->named_parameters().size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 7, order.end());
    replica.reorder(order);
  }
  const at::Tensor gradients = at::zeros({replica.layout().numel()});
  replica.optimizer().begin_update(0.5);
  replica.optimizer().update({0, gradients.numel()}, gradients);
  int64_t spared = 0;
  for (const NamedTensor& parameter : network->named_parameters()) {
    INFO(parameter.name);
    const bool decays = decay_norms || parameter.tensor.dim() > 1;
    CHECK(parameter.tensor.min().item<float>() == (decays ? 0.75F : 1));
    CHECK(parameter.tensor.max().item<float>() == (decays ? 0.75F : 1));
    spared += decays ? 0 : 1;
  }
  CHECK((spared > 100) == !decay_norms);  // two of each norm, and the last bias
}

TEST_CASE("what thaws begins as a new run does, with its own bias corrections") {
  OptimizerOptions adam;
  adam.groups = {{.match = "features.*", .rate = 0.5, .weight_decay = {}, .freeze = true}};
  ModelOptions model;
  model.kind = network_kind("densenet121");
  const std::shared_ptr<Network> network = make_network(model, {3, 32, 32, 2}, 1);
  Replica replica(network, at::MemoryFormat::ChannelsLast, adam);
  const auto update = [&] {
    replica.optimizer().begin_update(0.5);
    replica.optimizer().update({0, replica.trained_numel()}, at::ones({replica.trained_numel()}));
  };
  const auto first = network->named_parameters().front().tensor, last = network->named_parameters().back().tensor;
  const at::Tensor first_was = first.detach().clone();
  for (int i = 0; i < 3; ++i) update();
  CHECK(at::equal(first, first_was));
  const at::Tensor last_was = last.detach().clone();
  replica.thaw(3);
  CHECK_FALSE(replica.has_frozen());
  CHECK(first.requires_grad());
  CHECK(at::equal(last, last_was));
  CHECK(replica.moving_buffers().numel() == replica.flat_buffers().numel());
  CHECK(replica.hash_weights().size() == replica.weight_names().size());
  update();
  CHECK(at::allclose(first, first_was - 0.25, 0, 1e-6));  // each weight moves by the group's rate
  CHECK(at::allclose(last, last_was - 0.5, 0, 1e-6));     // equal gradients: by the whole rate in every update
}

TEST_CASE("a moving average follows parameters and statistics, wherever they lie, and can be computed with") {
  OptimizerOptions adam;
  adam.groups = {{.match = "features.conv0.*", .weight_decay = {}, .freeze = true},
                 {.match = "features.norm0.*", .weight_decay = {}, .freeze = true}};
  ModelOptions model;
  model.kind = network_kind("densenet121");
  const std::shared_ptr<Network> network = make_network(model, {3, 32, 32, 2}, 1);
  Replica replica(network, at::MemoryFormat::ChannelsLast, adam);
  CHECK(replica.average_tensors().empty());
  replica.keep_average({.decay = 0.3});
  std::map<std::string, at::Tensor> wanted;  // in float64
  for (const FileTensor& tensor : replica.average_tensors()) wanted[tensor.name] = tensor.tensor.to(at::kDouble);
  const auto values = [&] {
    std::map<std::string, at::Tensor> of;
    for (const FileTensor& tensor : replica.model_tensors("ema."))
      if (tensor.tensor.is_floating_point()) of[tensor.name] = tensor.tensor.detach().clone();
    return of;
  };
  REQUIRE(wanted.size() == values().size());
  for (const double kept : {2.0 / 11, 3.0 / 12, 0.3, 0.3}) {
    replica.optimizer().begin_update(0.5);
    replica.optimizer().update({0, replica.trained_numel()}, at::ones({replica.trained_numel()}));
    replica.moving_buffers().add_(1);
    replica.move_average();
    for (const auto& [name, value] : values()) wanted[name] = kept * wanted[name] + (1 - kept) * value;
    if (replica.optimizer().updates() == 2) replica.thaw(2);
    if (replica.optimizer().updates() != 3) continue;
    std::vector<size_t> order(network->named_parameters().size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 7, order.end());
    replica.reorder(order);
  }
  for (const FileTensor& tensor : replica.average_tensors()) {
    INFO(tensor.name);
    CHECK(at::allclose(tensor.tensor.to(at::kDouble), wanted[tensor.name], 1e-5, 1e-6));
  }
  CHECK(replica.hash_weights().size() == replica.weight_names().size());
  const auto weights = values();
  {
    const AveragedWeights averaged(replica);
    for (const auto& [name, value] : values()) CHECK(at::allclose(value.to(at::kDouble), wanted[name], 1e-5, 1e-6));
  }
  for (const auto& [name, value] : values()) CHECK(at::equal(value, weights.at(name)));
}

TEST_CASE("a frozen parameter needs no gradient, and neither gradients nor optimizer state have room for it") {
  OptimizerOptions sgd = optimizer_defaults(*optimizer_kind("sgd"));
  sgd.momentum = 0.9;
  sgd.groups = {{.match = "features.denseblock?.*", .weight_decay = {}, .freeze = true},
                {.match = "features.*", .rate = 0.5, .weight_decay = 0.25}};
  ModelOptions model;
  model.kind = network_kind("densenet121");
  const std::shared_ptr<Network> network = make_network(model, {3, 32, 32, 2}, 1);
  for (const NamedTensor& parameter : network->named_parameters()) at::Tensor(parameter.tensor).detach().fill_(1);
  Replica replica(network, at::MemoryFormat::ChannelsLast, sgd);
  int64_t trained = 0;
  for (const NamedTensor& parameter : network->named_parameters()) {
    CHECK(parameter.tensor.requires_grad() == !parameter.name.starts_with("features.denseblock"));
    if (parameter.tensor.requires_grad()) trained += parameter.tensor.numel();
  }
  CHECK(replica.trained_numel() >= trained);
  CHECK(replica.trained_numel() < trained + 64 * static_cast<int64_t>(replica.trained_parameters().size()));
  CHECK(replica.optimizer().state()[0].values.numel() == replica.trained_numel());
  CHECK(replica.moving_buffers().numel() < replica.flat_buffers().numel() / 10);
  for (const FileTensor& state : replica.optimizer_tensors())
    CHECK_FALSE(state.name.starts_with("optimizer.features.denseblock"));
  CHECK(replica.hash_weights().size() == replica.weight_names().size());
  CHECK(replica.hash_buffers().size() == replica.buffer_names().size());
  const at::Tensor gradients = at::ones({replica.trained_numel()});
  replica.optimizer().begin_update(0.5);
  replica.optimizer().update({0, gradients.numel()}, gradients);
  for (const NamedTensor& parameter : network->named_parameters()) {
    INFO(parameter.name);
    const bool frozen = parameter.name.starts_with("features.denseblock");
    const float wanted = frozen ? 1 : parameter.name.starts_with("features.") ? 1 - 0.25F * 1.25F : 0.5F;
    CHECK(parameter.tensor.min().item<float>() == wanted);
    CHECK(parameter.tensor.max().item<float>() == wanted);
  }
}
