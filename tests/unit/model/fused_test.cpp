// Fused networks against LibTorch's operators one by one.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <torch/csrc/autograd/function.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/model/functions.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/model/row_kernels.hpp"
#include "dtrain/model/row_products.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::difference;

namespace {

struct Outcome {
  std::vector<NamedTensor> tensors;  // logits, the picture's gradient, gradients, buffers

  void add(const std::string& name, const at::Tensor& tensor) {
    tensors.push_back({name, tensor.detach().clone().to(at::kDouble)});
  }
};

std::shared_ptr<Network> made(const std::string& name, bool fused, at::ScalarType type) {
  ModelOptions options;
  options.kind = network_kind(name.substr(0, name.find('+')));
  options.base_width = 4;  // fewer channels than the loops take at once, at first
  if (const size_t plus = name.find('+'); plus != std::string::npos)
    options.encoder = network_kind(name.substr(plus + 1));
  options.fused = fused;
  options.dropout = 0;
  auto network = test::drawn_once(options, {.channels = 1, .height = 64, .width = 64, .outputs = 3}, 5);
  const at::NoGradGuard no_grad;
  // Away from 1 and 0, so that masks, scales and shifts matter.
  for (const auto& [key, tensor] : network->named_parameters())
    if (tensor.dim() == 1) at::Tensor(tensor).add_(0.3 * at::sin(at::arange(tensor.numel()).to(tensor.dtype()) * 1.7));
  if (type == at::kDouble) test::to_float64(*network);
  for (const auto& [key, tensor] : network->named_parameters())
    if (tensor.dim() == 4) at::Tensor(tensor).set_data(tensor.contiguous(at::MemoryFormat::ChannelsLast));
  return network;
}

at::Tensor pictures(at::IntArrayRef shape, at::ScalarType type) {
  const at::Tensor values = at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * 0.37).view(shape);
  return values.to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
}

Outcome train_once(const std::string& name, bool fused, at::ScalarType type, at::IntArrayRef shape) {
  const auto network = made(name, fused, type);
  const at::Tensor images = pictures(shape, type);
  const at::Tensor logits = network->forward(images);
  (logits * at::cos(at::arange(logits.numel()).view(logits.sizes()).to(type))).sum().backward();
  Outcome outcome;
  outcome.add("logits", logits);
  outcome.add("picture", images.grad());
  for (const auto& [key, tensor] : network->named_parameters()) outcome.add(key, tensor.grad());
  for (const auto& [key, tensor] : network->named_buffers()) outcome.add(key, tensor);
  return outcome;
}

// A norm, and a convolution that follows.
struct TwoLayers : Module {
  explicit TwoLayers(const ConvShape& shape)
      : norm(register_module("norm", std::make_shared<BatchNorm2d>(shape.in))),
        conv(register_module("conv", std::make_shared<Conv2d>(shape))) {
    const at::NoGradGuard no_grad;
    norm->weight.copy_(1 + 0.5 * at::sin(at::arange(shape.in) * 1.3));
    norm->bias.copy_(0.3 * at::cos(at::arange(shape.in) * 0.7));
    conv->weight.set_data(at::sin(at::arange(conv->weight.numel()) * 0.7)
                              .view(conv->weight.sizes())
                              .contiguous(at::MemoryFormat::ChannelsLast));
    fuse();
  }

  std::shared_ptr<BatchNorm2d> norm;
  std::shared_ptr<Conv2d> conv;
};

// What `pass` gives for these pictures, its gradients, and the norm's statistics afterwards.
template <class Pass>
Outcome through(const ConvShape& shape, const at::Tensor& pictures, const Pass& pass) {
  TwoLayers layers(shape);
  if (pictures.scalar_type() == at::kDouble) test::to_float64(layers);
  const at::Tensor x = pictures.detach().clone().requires_grad_();
  const at::Tensor y = pass(layers, x);
  y.backward(at::cos(at::arange(y.numel()) * 0.9).view(y.sizes()).to(y.dtype()).contiguous(y.suggest_memory_format()));
  Outcome outcome;
  outcome.add("result", y);
  outcome.add("x", x.grad());
  for (const auto& [key, tensor] : layers.named_parameters())
    if (tensor.grad().defined()) outcome.add(key, tensor.grad());
  for (const auto& [key, tensor] : layers.named_buffers()) outcome.add(key, tensor);
  return outcome;
}

void require_same_bits(const Outcome& one, const Outcome& other) {
  REQUIRE(one.tensors.size() == other.tensors.size());
  for (size_t i = 0; i < one.tensors.size(); ++i) {
    INFO(one.tensors[i].name);
    CHECK(at::allclose(one.tensors[i].tensor, other.tensors[i].tensor, 0, 0, /*equal_nan=*/true));
  }
}

// Many of whose values are equal.
at::Tensor coarse(const at::Tensor& pictures) {
  return ((pictures.detach() * 4).round() / 4).contiguous(at::MemoryFormat::ChannelsLast);
}

// A case: a network, and pictures.
using Case = std::pair<std::string, std::vector<int64_t>>;

}  // namespace

TEST_CASE("all levels of a UNet with up to 16 channels are one node each, those that are concatenated before too") {
  const auto network = made("unet", true, at::kFloat);  // 4, 8, 16, 32 and 64 channels
  const at::Tensor logits = network->forward(pictures({2, 1, 64, 64}, at::kFloat));
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> ahead{logits.grad_fn().get()};
  int found = 0;
  while (!ahead.empty()) {
    torch::autograd::Node* const node = ahead.back();
    ahead.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (node->name().find("DoubleConvNode") != std::string::npos) ++found;
    for (const torch::autograd::Edge& edge : node->next_edges()) ahead.push_back(edge.function.get());
  }
  CHECK(found == 6);
}

TEST_CASE("a fused network computes what the operators compute, in float64 to 1e-10", "[long]") {
  const auto [name, shape] =
      GENERATE(Case{"densenet121", {2, 1, 64, 64}}, Case{"densenet121", {1, 1, 87, 70}},
               Case{"densenet121", {3, 1, 101, 64}}, Case{"resnet18", {2, 1, 75, 64}}, Case{"resnet50", {2, 1, 64, 86}},
               Case{"unet", {3, 1, 48, 32}}, Case{"unet+resnet18", {2, 1, 64, 96}}, Case{"small_cnn", {2, 1, 64, 64}});
  const Outcome plain = train_once(name, false, at::kDouble, shape), fused = train_once(name, true, at::kDouble, shape);
  REQUIRE(plain.tensors.size() == fused.tensors.size());
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    INFO(name << ", " << plain.tensors[i].name);
    CHECK(difference(fused.tensors[i].tensor, plain.tensors[i].tensor) < 1e-10);
  }
}

TEST_CASE("in evaluation mode too", "[long]") {
  const std::string name = GENERATE("densenet121", "resnet18", "resnet50", "unet", "unet+resnet18");
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const auto plain = made(name, false, type), fused = made(name, true, type);
    plain->eval();
    fused->eval();
    const at::NoGradGuard no_grad;
    const at::Tensor images = pictures({2, 1, 64, 96}, type).detach();
    CHECK(difference(fused->forward(images), plain->forward(images)) < (type == at::kDouble ? 1e-12 : 1e-4));
  }
}

TEST_CASE("without gradients each norm is in the mode that it was given, whatever the others are in", "[long]") {
  using Kept = std::pair<std::string, std::string>;
  const auto [name, kept] = GENERATE(Kept{"resnet18", ".bn1"}, Kept{"resnet50", ".bn1"}, Kept{"unet", ".1"},
                                     Kept{"unet+resnet18", "conv1.1"});
  at::Tensor results[2];
  for (const bool fused : {false, true}) {
    const auto network = made(name, fused, at::kDouble);
    network->train();
    for (const Module::Named& part : network->modules())
      if (part.name.ends_with(kept)) part.module->keep_in_evaluation(true);
    const at::NoGradGuard no_grad;
    results[fused ? 1 : 0] = network->forward(pictures({2, 1, 64, 64}, at::kDouble).detach());
  }
  CHECK(difference(results[1], results[0]) < 1e-10);
}

TEST_CASE("in float32 it is as near to float64 as the operators are", "[vectors][long]") {
  const auto [name, shape] =
      GENERATE(Case{"densenet121", {3, 1, 64, 64}}, Case{"resnet18", {3, 1, 64, 64}}, Case{"resnet50", {3, 1, 64, 64}},
               Case{"unet", {3, 1, 64, 64}}, Case{"small_cnn", {4, 1, 64, 64}});
  const Outcome exact = train_once(name, false, at::kDouble, shape), plain = train_once(name, false, at::kFloat, shape),
                fused = train_once(name, true, at::kFloat, shape);
  double plain_worst = 0, fused_worst = 0;
  for (size_t i = 0; i < exact.tensors.size(); ++i) {
    plain_worst = std::max(plain_worst, difference(plain.tensors[i].tensor, exact.tensors[i].tensor));
    fused_worst = std::max(fused_worst, difference(fused.tensors[i].tensor, exact.tensors[i].tensor));
  }
  INFO(name << ": operators " << plain_worst << ", fused " << fused_worst << " by " << row_kernels<float>().name);
  CHECK(fused_worst < std::max(1e-4, 3 * plain_worst));
}

TEST_CASE("norm, ReLU and convolution as one node give the bits of two nodes", "[vectors]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kDouble);
  const ConvShape shape =
      GENERATE(ConvShape{.in = 64, .out = 32}, ConvShape{.in = 32, .out = 64, .kernel = 3, .padding = 1},
               ConvShape{.in = 64, .out = 64, .kernel = 3, .stride = 2, .padding = 1},
               ConvShape{.in = 16, .out = 8, .kernel = 3}, ConvShape{.in = 128, .out = 64, .stride = 2});
  const at::Tensor x = pictures({4, shape.in, 10, 16}, type);
  const Outcome one = through(
      shape, x, [](const auto& layers, const auto& in) { return norm_relu_conv(*layers.norm, *layers.conv, in); });
  const Outcome two =
      through(shape, x, [](const auto& layers, const auto& in) { return (*layers.conv)(norm_relu(*layers.norm, in)); });
  CHECK(one.tensors.size() == 8);
  require_same_bits(one, two);
}

TEST_CASE("norm, ReLU and max pooling as one node give the bits of two nodes, with equal values too", "[vectors]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kDouble);
  const Window window = GENERATE(Window{3, 2, 1}, Window{2, 2, 0}, Window{3, 1, 1}, Window{3, 3, 0}, Window{2, 1, 1});
  const auto [height, width] = GENERATE(std::pair<int64_t, int64_t>{12, 16}, std::pair<int64_t, int64_t>{7, 9});
  at::Tensor x = coarse(pictures({3, 64, height, width}, type));
  if (width == 9) x[1][3][2][2] = std::numeric_limits<double>::quiet_NaN();
  const ConvShape unused{.in = 64, .out = 1};
  const Outcome one = through(
      unused, x, [&](const auto& layers, const auto& in) { return norm_relu_max_pool(*layers.norm, in, window, ""); });
  const Outcome two = through(
      unused, x, [&](const auto& layers, const auto& in) { return max_pool(norm_relu(*layers.norm, in), window, ""); });
  CHECK(one.tensors.size() == 7);
  require_same_bits(one, two);
}

TEST_CASE("a node with a convolution goes back only where a gradient is wanted") {
  const ConvShape shape{.in = 32, .out = 32, .kernel = 3, .padding = 1};
  const at::Tensor x = pictures({2, 32, 8, 8}, at::kFloat).detach();
  const auto pass = [&](bool norm_frozen, bool kernel_frozen) {
    TwoLayers layers(shape);
    for (const at::Tensor& tensor : {layers.norm->weight, layers.norm->bias}) tensor.requires_grad_(!norm_frozen);
    layers.conv->weight.requires_grad_(!kernel_frozen);
    norm_relu_conv(*layers.norm, *layers.conv, x).sum().backward();
    CHECK(layers.norm->weight.grad().defined() == !norm_frozen);
    CHECK(layers.norm->bias.grad().defined() == !norm_frozen);
    CHECK(layers.conv->weight.grad().defined() == !kernel_frozen);
  };
  pass(false, false);
  pass(true, false);
  pass(false, true);
}

TEST_CASE("vector loops give what plain loops give, but for rounding", "[vectors]") {
  const RowKernels<float>& plain = kPlainRows;
  const RowKernels<float>& used = row_kernels<float>();
  const int64_t rows = GENERATE(1, 7, 96);
  const int64_t columns = 64, depth = 33;
  const at::Tensor a = pictures({rows, depth, 1, 1}, at::kFloat).detach().contiguous().view({rows, depth}),
                   b = pictures({depth, columns, 1, 1}, at::kFloat).detach().contiguous().view({depth, columns});
  const auto product = [&](const RowKernels<float>& kernels) {
    const at::Tensor packed = at::empty({depth * columns}), y = at::empty({rows, columns});
    kernels.pack(depth, columns, b.const_data_ptr<float>(), columns, 1, packed.data_ptr<float>());
    kernels.multiply(rows, columns, depth, {a.const_data_ptr<float>(), depth}, packed.const_data_ptr<float>(),
                     {y.data_ptr<float>(), columns}, false);
    return y.to(at::kDouble);
  };
  CHECK(difference(product(used), product(plain)) < 1e-5);
  CHECK(difference(product(used), a.to(at::kDouble).matmul(b.to(at::kDouble))) < 1e-5);
}

TEST_CASE("a transposed product adds to what is there, for any number of rows", "[vectors]") {
  const int64_t rows = GENERATE(1, 7, 192), height = GENERATE(5, 12, 64);
  const int64_t columns = 32;
  const at::Tensor a = pictures({rows, height, 1, 1}, at::kFloat).detach().contiguous().view({rows, height}),
                   b = pictures({rows, columns, 1, 1}, at::kFloat).detach().contiguous().view({rows, columns});
  for (const RowKernels<float>* kernels : {&kPlainRows, &row_kernels<float>()}) {
    const at::Tensor across = at::empty({rows * (height + kernels->tile_rows)}), y = at::ones({height, columns});
    kernels->pack_across(rows, height, {a.const_data_ptr<float>(), height}, across.data_ptr<float>());
    kernels->add_transposed_product(height, columns, rows, across.const_data_ptr<float>(),
                                    {b.const_data_ptr<float>(), columns}, {y.data_ptr<float>(), columns});
    CHECK(difference(y.to(at::kDouble), a.to(at::kDouble).t().matmul(b.to(at::kDouble)) + 1) < 1e-5);
  }
}

TEST_CASE("what is no number stays so through a fused layer") {
  const auto network = made("resnet18", true, at::kFloat);
  at::Tensor images = pictures({2, 1, 64, 64}, at::kFloat).detach();
  images[0][0][3][3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(network->forward(images).isnan().any().item<bool>());
}

TEST_CASE("passes of our own are on as many threads as LibTorch may use") {
  const auto present = [] {
    namespace fs = std::filesystem;
    return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
  };
  const int before = at::get_num_threads(), more = present() + 3;  // more than there may be at rest
  const at::Tensor rows = at::ones({kPanel * more, 32}), square = at::ones({32, 32});
  at::set_num_threads(more);
  const int at_rest = present();
  const at::Tensor product = multiplied(rows, square);
  at::set_num_threads(before);
  CHECK(present() > at_rest);
  CHECK((product == 32).all().item<bool>());
}

// What `made` gives with 1, 2 and 3 threads, but for tensors of which LibTorch splits the sums by threads.
template <class Make>
void require_same_bits_by_threads(const Make& make, const std::set<std::string>& left_out = {}) {
  std::vector<Outcome> made;
  for (const int threads : {1, 2, 3}) {
    made.push_back(test::on_threads(threads, make));
    std::erase_if(made.back().tensors, [&](const NamedTensor& one) { return left_out.contains(one.name); });
  }
  for (const Outcome& more : {made[1], made[2]}) require_same_bits(made[0], more);
}

TEST_CASE("the passes of a slab do not depend on the number of threads, forward and back", "[vectors]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kDouble);
  require_same_bits_by_threads(
      [&] {
        return train_once("densenet121", true, type, {3, 1, 64, 64});
      },
      {"features.conv0.weight"});
}

TEST_CASE("nodes of norm, ReLU and what follows do not depend on the number of threads", "[vectors]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kDouble);
  const at::Tensor x = pictures({4, 64, 20, 24}, type);
  const ConvShape shape{.in = 64, .out = 64, .kernel = 3, .padding = 1};
  require_same_bits_by_threads([&] {
    return through(shape, x,
                   [](const auto& layers, const auto& in) { return norm_relu_conv(*layers.norm, *layers.conv, in); });
  });
  require_same_bits_by_threads([&] {
    return through(shape, x, [](const auto& layers, const auto& in) {
      return norm_relu_max_pool(*layers.norm, in, Window{3, 2, 1}, "");
    });
  });
}
