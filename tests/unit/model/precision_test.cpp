#include "dtrain/model/precision.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <functional>
#include <stdexcept>

#include "dtrain/model/autocast.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/network.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

namespace {

// The product of two float32 matrices with the present settings.
at::ScalarType product_type() { return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(); }

at::ScalarType type_of(Precision precision) {
  return precision == Precision::bf16 ? at::kBFloat16 : precision == Precision::fp16 ? at::kHalf : at::kFloat;
}

at::Tensor channels_last(const at::Tensor& x) {
  return x.dim() == 4 ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}

// Values of about one that `type` represents exactly.
at::Tensor some(at::IntArrayRef shape, double phase, at::ScalarType type) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const at::Tensor values = (at::arange(count, at::kDouble) * 0.7 + phase).sin() + 0.1;
  return channels_last(values.reshape(shape).to(type).to(at::kFloat));
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).to(at::kDouble).norm() / b.to(at::kDouble).norm()).item<double>();
}

// The output of a layer or function for a batch, and the gradients of batch and parameters, in float32.
using Step = std::function<at::Tensor(const at::Tensor&)>;
std::vector<at::Tensor> results(const Step& step, const std::vector<at::Tensor>& parameters, const at::Tensor& batch,
                                at::ScalarType type, Precision precision) {
  const at::Tensor x = batch.clone().requires_grad_();
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  at::Tensor y;
  {
    const AutocastScope scope(at::kCPU, precision);
    y = step(x.to(type_of(precision)));
  }
  CHECK(y.scalar_type() == type_of(precision));
  y.backward(some(y.sizes(), 2, type).to(y.scalar_type()));
  std::vector<at::Tensor> all{y.detach().to(at::kFloat), x.grad()};
  for (const at::Tensor& parameter : parameters) {
    CHECK(parameter.grad().scalar_type() == at::kFloat);
    all.push_back(parameter.grad().clone());
  }
  return all;
}

// With operands that 16 bits represent exactly, only results are rounded, and the few partial sums (one for each
// sample, or each position of the window) of a convolution that has no kernel for the type.
void require_few_roundings(const std::string& name, const Step& step, const std::vector<at::Tensor>& parameters,
                           at::IntArrayRef shape) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const at::ScalarType type = type_of(precision);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::NoGradGuard no_grad;
      const at::Tensor& parameter = parameters[i];
      at::Tensor(parameter).set_data(some(parameter.sizes(), static_cast<double>(i), type));
    }
    const at::Tensor batch = some(shape, 1, type);
    const auto plain = results(step, parameters, batch, type, Precision::fp32);
    const auto reduced = results(step, parameters, batch, type, precision);
    const double one_rounding = precision == Precision::bf16 ? 0x1p-9 : 0x1p-12;
    for (size_t i = 0; i < plain.size(); ++i) {
      INFO(name << " in " << at::toString(type) << ", result " << i);
      CHECK(distance(reduced[i], plain[i]) < 4 * one_rounding);
    }
  }
}

template <class Layer>
void require_few_roundings(const std::string& name, const Layer& layer, at::IntArrayRef shape) {
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : layer.own_parameters()) parameters.push_back(parameter.tensor);
  require_few_roundings(
      name, [&layer](const at::Tensor& x) { return layer(x); }, parameters, shape);
}

// No two alike, since a norm over a few pictures that are nearly equal amplifies rounding.
at::Tensor unlike_pictures() {
  const at::Tensor places = at::arange(8 * 3 * 32 * 32, at::kDouble);
  return ((places * 12.9898).sin() * 43758.5453).frac().to(at::kFloat).reshape({8, 3, 32, 32});
}

// Logits of one batch in training mode, in the layout that training uses, and the gradients of all parameters.
at::Tensor trained_logits(const NetworkKind* name, Precision precision) {
  at::set_num_threads(1);
  ModelOptions options;
  options.kind = name;
  const auto network = test::drawn_once(options, {3, 32, 32, 4}, 3);
  network->set_random_key(1, 2, 3);
  for (const NamedTensor& parameter : network->named_parameters())
    at::Tensor(parameter.tensor).set_data(channels_last(parameter.tensor));
  at::Tensor logits;
  {
    const AutocastScope scope(at::kCPU, precision);
    logits = network->forward(channels_last(unlike_pictures()));
  }
  CHECK(logits.scalar_type() == type_of(precision));
  logits.to(at::kFloat).square().mean().backward();
  for (const NamedTensor& parameter : network->named_parameters()) {
    INFO(parameter.name);
    REQUIRE(parameter.tensor.grad().defined());
    CHECK(parameter.tensor.grad().scalar_type() == at::kFloat);
    CHECK(parameter.tensor.grad().isfinite().all().item<bool>());
  }
  for (const NamedTensor& buffer : network->named_buffers())
    if (buffer.tensor.is_floating_point()) CHECK(buffer.tensor.scalar_type() == at::kFloat);
  return logits.detach().to(at::kFloat);
}

}  // namespace

TEST_CASE("a scope sets the type of products and brings back what was before") {
  CHECK(product_type() == at::kFloat);
  const at::ScalarType type_before = at::autocast::get_autocast_dtype(at::kCPU);
  {
    const AutocastScope outer(at::kCPU, Precision::fp16);
    CHECK(product_type() == at::kHalf);
    for (const Precision precision : {Precision::fp32, Precision::tf32}) {
      const AutocastScope inner(at::kCPU, precision);
      CHECK(product_type() == at::kFloat);
    }
    {
      const AutocastScope inner(at::kCPU, Precision::bf16);
      CHECK(product_type() == at::kBFloat16);
    }
    CHECK(product_type() == at::kHalf);
  }
  CHECK(product_type() == at::kFloat);
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  CHECK(at::autocast::is_autocast_cache_enabled());
  CHECK(at::autocast::get_autocast_dtype(at::kCPU) == type_before);
}

TEST_CASE("an exception leaves nothing of a scope behind") {
  CHECK_THROWS_AS(
      [] {
        const AutocastScope scope(at::kCPU, Precision::bf16);
        throw std::runtime_error("in the middle of a forward pass");
      }(),
      std::runtime_error);
  CHECK(product_type() == at::kFloat);
  CHECK(at::autocast::is_autocast_cache_enabled());
}

TEST_CASE("a weight that changed between two passes of one scope is rounded anew") {
  const at::Tensor weight = at::ones({1, 1}).requires_grad_();
  const AutocastScope scope(at::kCPU, Precision::bf16);
  CHECK(at::linear(at::ones({1, 1}), weight).item<float>() == 1);
  const at::NoGradGuard no_grad;
  at::Tensor(weight).fill_(2);
  CHECK(at::linear(at::ones({1, 1}), weight).item<float>() == 2);
}

TEST_CASE("TF32 is allowed with tf32 and with nothing else, and sums of 16 bits never") {
  set_product_precision(Precision::tf32);
  CHECK(at::globalContext().allowTF32CuBLAS());
  CHECK(at::globalContext().allowTF32CuDNN());
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    set_product_precision(precision);
    CHECK_FALSE(at::globalContext().allowTF32CuBLAS());
    CHECK_FALSE(at::globalContext().allowTF32CuDNN());
    CHECK(at::globalContext().allowFP16ReductionCuBLAS() ==
          at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK);
    CHECK(at::globalContext().allowBF16ReductionCuBLAS() ==
          at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK);
  }
}

TEST_CASE("tf32 has fp32's bits on a CPU") {
  const at::Tensor plain = trained_logits(network_kind("small_cnn"), Precision::fp32);
  set_product_precision(Precision::tf32);
  const at::Tensor tf32 = trained_logits(network_kind("small_cnn"), Precision::tf32);
  set_product_precision(Precision::fp32);
  CHECK(test::same_bits(tf32, plain));
}

TEST_CASE("layers and what stands between them lose no more in 16 bits than a few roundings, forward and backward") {
  require_few_roundings("1x1 convolution", Conv2d({.in = 16, .out = 24}), {4, 16, 9, 9});
  require_few_roundings("1x1 convolution with stride", Conv2d({.in = 16, .out = 24, .stride = 2}), {4, 16, 9, 9});
  require_few_roundings("3x3 convolution", Conv2d({.in = 16, .out = 8, .kernel = 3, .padding = 1, .bias = true}),
                        {4, 16, 9, 9});
  require_few_roundings("7x7 convolution", Conv2d({.in = 3, .out = 8, .kernel = 7, .stride = 2, .padding = 3}),
                        {4, 3, 16, 16});
  require_few_roundings("transposed convolution",
                        ConvTranspose2d({.in = 16, .out = 8, .kernel = 2, .stride = 2, .bias = true}), {4, 16, 5, 5});
  require_few_roundings("linear", Linear(48, 10), {4, 48});
  const BatchNorm2d norm(16);
  require_few_roundings("norm", norm, {4, 16, 9, 9});
  require_few_roundings("norm and relu", [&](const at::Tensor& x) { return norm_relu(norm, x); },
                        {norm.weight, norm.bias}, {4, 16, 9, 9});
  const Window window{3, 2, 1};
  require_few_roundings("max pool", [&](const at::Tensor& x) { return max_pool(x, window, ""); }, {}, {4, 16, 9, 9});
  require_few_roundings("average pool", [&](const at::Tensor& x) { return average_pool(x, window, ""); }, {},
                        {4, 16, 9, 9});
  require_few_roundings("global average pool", [&](const at::Tensor& x) { return global_average_pool(x, ""); }, {},
                        {4, 16, 9, 9});
  require_few_roundings("concat",
                        [&](const at::Tensor& x) {
                          return concat(std::vector{x, x}, "");
                        },
                        {}, {4, 16, 9, 9});
  require_few_roundings("shortcut", [&](const at::Tensor& x) { return add_to(x.mul(2), x); }, {}, {4, 16, 9, 9});
}

// This does not check how close to float32 training stays: fifty norms over a few values each amplify every rounding.
TEST_CASE("networks run forward and backward in 16 bits", "[long]") {
  for (const NetworkKind* name : test::network_of_each_block()) {
    INFO(name->name);
    const at::Tensor plain = trained_logits(name, Precision::fp32);
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      const bool deep = name->name.starts_with("resnet") || name->name.starts_with("densenet");
      if (deep && precision == Precision::fp16) continue;  // half a minute where the processor has no float16 products
      const double off = distance(trained_logits(name, precision), plain);
      INFO("logits off by " << off);
      CHECK(off > 0);
      CHECK(off < (deep ? 1 : 0.05));
    }
  }
}

TEST_CASE("dropout's factor keeps its bits beside 16-bit features") {
  KeyedDropout dropout(0.3);
  dropout.set_key(1, 2, 3);
  const at::Tensor factors = dropout(at::ones({8, 64}));
  const at::Tensor features = at::linspace(0.1, 3, 8 * 64).reshape({8, 64}).to(at::kBFloat16);
  const at::Tensor dropped = dropout(features);
  CHECK(dropped.scalar_type() == at::kBFloat16);
  CHECK(at::equal(dropped, (features.to(at::kFloat) * factors).to(at::kBFloat16)));
}
