// Fused networks against LibTorch's operators one by one.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/model/network.hpp"
#include "dtrain/model/row_kernels.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

namespace {

struct Outcome {
  std::vector<NamedTensor> tensors;  // logits, the picture's gradient, gradients, buffers

  void add(const std::string& name, const at::Tensor& tensor) {
    tensors.push_back({name, tensor.detach().clone().to(at::kDouble)});
  }
};

std::shared_ptr<Network> made(const std::string& name, bool fused, at::ScalarType type) {
  ModelOptions options;
  options.kind = network_kind(name);
  options.base_width = 4;  // fewer channels than the loops take at once, at first
  options.fused = fused;
  auto network = make_network(options, {.channels = 1, .height = 64, .width = 64, .outputs = 3}, 5);
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

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / (b.abs().max() + 1e-30)).item<double>();
}

// A case: a network, and pictures.
using Case = std::pair<std::string, std::vector<int64_t>>;

}  // namespace

TEST_CASE("a fused network computes what the operators compute, in float64 to 1e-10") {
  const auto [name, shape] = GENERATE(Case{"densenet121", {2, 1, 64, 64}}, Case{"densenet121", {1, 1, 87, 70}},
                                      Case{"densenet121", {3, 1, 101, 64}}, Case{"resnet18", {2, 1, 75, 64}},
                                      Case{"resnet50", {2, 1, 64, 86}}, Case{"unet", {3, 1, 48, 32}});
  const Outcome plain = train_once(name, false, at::kDouble, shape), fused = train_once(name, true, at::kDouble, shape);
  REQUIRE(plain.tensors.size() == fused.tensors.size());
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    INFO(name << ", " << plain.tensors[i].name);
    CHECK(difference(fused.tensors[i].tensor, plain.tensors[i].tensor) < 1e-10);
  }
}

TEST_CASE("in evaluation mode too") {
  const std::string name = GENERATE("densenet121", "resnet18", "resnet50", "unet");
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const auto plain = made(name, false, type), fused = made(name, true, type);
    plain->eval();
    fused->eval();
    const at::NoGradGuard no_grad;
    const at::Tensor images = pictures({2, 1, 64, 80}, type).detach();
    CHECK(difference(fused->forward(images), plain->forward(images)) < (type == at::kDouble ? 1e-12 : 1e-4));
  }
}

TEST_CASE("in float32 it is as near to float64 as the operators are", "[vectors]") {
  const std::string name = GENERATE("densenet121", "resnet18", "resnet50", "unet");
  const std::vector<int64_t> shape = {4, 1, 96, 96};
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
                     {y.data_ptr<float>(), columns});
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

TEST_CASE("the passes of a slab do not depend on the number of threads", "[vectors]") {
  const auto logits = [](int threads) {
    at::set_num_threads(threads);
    return train_once("densenet121", true, at::kFloat, {3, 1, 64, 64});
  };
  const int before = at::get_num_threads();
  const Outcome one = logits(1), two = logits(2);
  at::set_num_threads(before);
  // LibTorch's convolutions may split their own sums of the way back by threads.
  CHECK(at::equal(one.tensors.front().tensor, two.tensors.front().tensor));
}
