#include "dtrain/model/network.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <map>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::make;

static std::map<std::string, at::Tensor> by_name(const Network& network) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, tensor] : network.named_parameters()) all[name] = tensor.detach();
  return all;
}

static double deviation(const at::Tensor& tensor) { return tensor.to(at::kDouble).std().item<double>(); }
static double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

TEST_CASE("initial weights are a function of the seed and the tensor's name alone") {
  const auto name = GENERATE(network_kind("densenet121"), network_kind("unet"), network_kind("small_cnn"));
  INFO(name->name);
  NetworkShape shape = test::reference_shape(name);
  const auto first = by_name(*make(name, shape));
  const auto again = by_name(*make(name, shape));
  const auto other = by_name(*make(name, shape, 2));
  shape.outputs += 1;
  const auto wider = make(name, shape);
  for (const auto& [key, tensor] : first) {
    INFO(key);
    CHECK(test::same_bits(tensor, again.at(key)));
    if (tensor.dim() > 1) CHECK_FALSE(test::same_bits(tensor, other.at(key)));
  }
  for (const auto& [key, tensor] : by_name(*wider))
    if (tensor.sizes() == first.at(key).sizes()) CHECK(test::same_bits(tensor, first.at(key)));
}

TEST_CASE("initial weights have the distributions of torchvision and PyTorch") {
  const auto dense = by_name(*make(network_kind("densenet121"), test::reference_shape(network_kind("densenet121"))));
  // Normal, deviation √(2 ÷ fan in) = √(2 ÷ (128·9)); 36,864 draws know their deviation to 0.4 %.
  const at::Tensor& normal = dense.at("features.denseblock1.denselayer1.conv2.weight");
  CHECK(deviation(normal) == Approx(std::sqrt(2.0 / (128 * 9))).epsilon(0.02));
  CHECK(std::abs(normal.mean().item<double>()) < 0.02 * deviation(normal));
  CHECK(largest(normal) > 3.5 * deviation(normal));
  CHECK(largest(dense.at("classifier.bias")) == 0);
  CHECK(largest(dense.at("classifier.weight")) == Approx(1 / std::sqrt(1024.0)).epsilon(0.01));
  CHECK(test::same_bits(dense.at("features.norm5.weight"), at::ones({1024})));
  CHECK(largest(dense.at("features.norm5.bias")) == 0);

  const auto residual = by_name(*make(network_kind("resnet50"), test::reference_shape(network_kind("resnet50"))));
  // Fan out: 64 filters of 7·7, where fan in would be 3·7·7.
  CHECK(deviation(residual.at("conv1.weight")) == Approx(std::sqrt(2.0 / (64 * 49))).epsilon(0.03));
  CHECK(largest(residual.at("fc.bias")) > 0);

  const auto unet = by_name(*make(network_kind("unet"), test::reference_shape(network_kind("unet"))));
  const double bound = 1 / std::sqrt(64.0 * 4);  // up.0: weight [128, 64, 2, 2], inputs counted as PyTorch does
  CHECK(largest(unet.at("up.0.weight")) == Approx(bound).epsilon(0.01));
  CHECK(deviation(unet.at("up.0.weight")) == Approx(bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(largest(unet.at("up.0.bias")) <= bound);
  CHECK(largest(unet.at("up.0.bias")) > 0.8 * bound);
}

TEST_CASE("the layer list has the network's parameters, shapes and multiply-adds") {
  struct Anchor {
    const NetworkKind* name;
    NetworkShape shape;
    double giga_multiply_adds;
    std::vector<int64_t> output;
  };
  const auto anchor = GENERATE(Anchor{network_kind("resnet18"), {3, 224, 224, 1000}, 1.814, {1000}},
                               Anchor{network_kind("resnet34"), {3, 224, 224, 1000}, 3.664, {1000}},
                               Anchor{network_kind("resnet50"), {3, 224, 224, 1000}, 4.089, {1000}},
                               Anchor{network_kind("resnet101"), {3, 224, 224, 1000}, 7.801, {1000}},
                               Anchor{network_kind("resnet152"), {3, 224, 224, 1000}, 11.514, {1000}},
                               Anchor{network_kind("densenet121"), {3, 224, 224, 14}, 2.833, {14}},
                               Anchor{network_kind("densenet169"), {3, 224, 224, 1000}, 3.360, {1000}},
                               Anchor{network_kind("densenet201"), {3, 224, 224, 1000}, 4.291, {1000}},
                               Anchor{network_kind("unet"), {1, 768, 1024, 1}, 9.07, {1, 768, 1024}},
                               Anchor{network_kind("small_cnn"), {3, 64, 64, 2}, 0.03729, {2}});
  INFO(anchor.name->name);
  ModelOptions options;
  options.kind = anchor.name;
  const auto network = anchor.name->make(options, anchor.shape);
  const auto layers = network->layers(anchor.shape);
  int64_t parameters = 0, listed = 0, flop = 0;
  for (const auto& [name, tensor] : network->named_parameters()) parameters += tensor.numel();
  for (const auto& layer : layers) {
    listed += layer.parameters;
    flop += layer.flop;
    CHECK_FALSE(layer.name.empty());
  }
  CHECK(listed == parameters);
  CHECK(static_cast<double>(flop) / 2e9 == Approx(anchor.giga_multiply_adds).epsilon(0.001));
  CHECK(layers.back().output == anchor.output);
}

TEST_CASE("the layer list ends in the shape that a forward pass has, odd sizes too") {
  const auto name = GENERATE(network_kind("densenet121"), network_kind("resnet50"), network_kind("small_cnn"));
  INFO(name->name);
  const NetworkShape shape{.channels = 2, .height = 45, .width = 71, .outputs = 5};
  const auto network = make(name, shape);
  network->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor logits = network->forward(at::zeros({2, 2, 45, 71}));
  CHECK(logits.sizes() == at::IntArrayRef({2, 5}));
  CHECK(network->layers(shape).back().output == std::vector<int64_t>{5});
}

TEST_CASE("the same pass twice gives the same bits", "[long]") {
  const auto name = GENERATE(from_range(test::network_of_each_block()));
  INFO(name->name);
  at::set_num_threads(1);
  const NetworkShape shape = test::reference_shape(name);
  const at::Tensor images =
      test::keyed_normal({2, shape.channels, 64, 64}, 3).contiguous(memory_format_for(*name, at::kCPU));
  std::vector<at::Tensor> results[2];
  for (auto& result : results) {
    const auto network = make(name, shape);
    network->set_random_key(1, 0, 0);
    const at::Tensor logits = network->forward(images);
    logits.square().mean().backward();
    result.push_back(logits);
    for (const auto& [key, tensor] : network->named_parameters()) result.push_back(tensor.grad());
    for (const auto& [key, tensor] : network->named_buffers()) result.push_back(tensor);
  }
  REQUIRE(results[0].size() == results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) CHECK(test::same_bits(results[0][i], results[1][i]));
}

// As the trainer does: parameters, gradients and float buffers become slices of flat tensors.
TEST_CASE("layers compute with the tensors that parameters and buffers were last bound to") {
  const auto name = GENERATE(network_kind("resnet50"), network_kind("unet"), network_kind("small_cnn"));
  INFO(name->name);
  const NetworkShape shape = test::reference_shape(name);
  const at::Tensor images = test::keyed_normal({2, shape.channels, 64, 64}, 3);
  const auto plain = test::reference_network(name), bound = test::reference_network(name);

  auto tensors = bound->named_parameters();
  for (NamedTensor& buffer : bound->named_buffers())
    if (buffer.tensor.is_floating_point()) tensors.push_back(buffer);
  int64_t total = 0, offset = 0;
  for (const auto& named : tensors) total += named.tensor.numel();
  const at::Tensor flat = at::zeros({total}), gradients = at::zeros({total});
  for (auto& [key, tensor] : tensors) {
    const at::Tensor view = flat.narrow(0, offset, tensor.numel()).view(tensor.sizes());
    view.copy_(tensor.detach());
    tensor.set_data(view);
    if (tensor.requires_grad())
      tensor.mutable_grad() = gradients.narrow(0, offset, tensor.numel()).view(tensor.sizes());
    offset += tensor.numel();
  }
  const auto pass = [&](Network& network) {
    const at::Tensor logits = network.forward(images);
    logits.square().mean().backward();
    return logits.detach();
  };
  CHECK(test::same_bits(pass(*plain), pass(*bound)));
  offset = 0;
  const auto plain_parameters = plain->named_parameters();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].tensor;
    INFO(tensors[i].name);
    CHECK(tensor.data_ptr() == flat.data_ptr<float>() + offset);
    if (i < plain_parameters.size())
      CHECK(test::same_bits(gradients.narrow(0, offset, tensor.numel()).view(tensor.sizes()),
                            plain_parameters[i].tensor.grad()));
    offset += tensor.numel();
  }
  flat.zero_();
  CHECK(bound->forward(images).detach().abs().max().item<float>() == 0);
}

TEST_CASE("the head and the kernels are found by name") {
  const auto unfilled = [](const NetworkKind* kind) {
    return kind->make(test::options_of(kind), test::reference_shape(kind));
  };
  const auto unet = unfilled(network_kind("unet"));
  CHECK(unet->head() == std::vector<std::string>{"head.weight", "head.bias"});
  CHECK(kernel_names(*unet).size() == 2 * 4 + 2 + 4 + 2 * 4 + 1);
  const auto residual = unfilled(network_kind("resnet50"));
  CHECK(kernel_names(*residual).size() == 53);
  for (const NetworkKind* name : networks()) {
    const auto network = unfilled(name);
    const auto parameters = by_name(*network);
    for (const std::string& part : network->head())
      CHECK(parameters.at(part).size(0) == test::reference_shape(name).outputs);
  }
}

TEST_CASE("a picture size that a network cannot work on is a configuration error that says so") {
  CHECK_THROWS_WITH(make(network_kind("unet"), {1, 100, 128, 1}),
                    Catch::Contains("multiples of 16") && Catch::Contains("100 × 128"));
  CHECK_THROWS_AS(make(network_kind("unet"), {1, 64, 0, 1}), ConfigError);
  CHECK_THROWS_AS(make(network_kind("small_cnn"), {3, 15, 64, 2}), ConfigError);
  CHECK_THROWS_AS(make(network_kind("densenet121"), {3, 28, 64, 2}), ConfigError);
  CHECK_THROWS_AS(make(network_kind("resnet50"), {3, 0, 64, 2}), ConfigError);
  CHECK_NOTHROW(make(network_kind("small_cnn"), {3, 16, 16, 2}));
}

TEST_CASE("the smallest picture of densenet121 goes through it") {
  const NetworkShape shape{3, 29, 29, 2};
  const auto network = make(network_kind("densenet121"), shape);
  network->eval();
  const at::NoGradGuard no_grad;
  CHECK(network->forward(at::zeros({1, 3, 29, 29})).isfinite().all().item<bool>());
}

TEST_CASE("all networks compute channels-last on CPU and CUDA") {
  for (const NetworkKind* name : networks()) {
    CHECK(memory_format_for(*name, at::kCPU) == at::MemoryFormat::ChannelsLast);
    CHECK(memory_format_for(*name, at::kCUDA) == at::MemoryFormat::ChannelsLast);
  }
}
