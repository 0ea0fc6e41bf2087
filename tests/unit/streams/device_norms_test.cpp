// Norms with a ReLU on a device: against LibTorch's operators there, in every kind of number.
#include "dtrain/model/device_norms.hpp"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include <functional>

#include "dtrain/device/gpu_module.hpp"
#include "dtrain/model/device_slab.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/precision.hpp"
#include "support/catch.hpp"
#include "support/sixteen_bits.hpp"
#include "the_host_gpu.hpp"

using namespace dtrain;
using test::faults;
using test::the_host_gpu;

namespace {

constexpr int64_t kChannels = 5;

/// A norm on the device, as a replica leaves it there.
struct Layer {
  explicit Layer(bool fused) : norm(kChannels) {
    at::manual_seed(3);
    for (const at::Tensor& tensor : {norm.weight, norm.bias, norm.running_mean, norm.running_var})
      at::Tensor(tensor).set_data((tensor.detach() + 0.3 * at::rand_like(tensor)).to(the_host_gpu().place));
    norm.fuse(fused);
    norm.use_norms(&the_host_gpu().module->norms());
  }
  BatchNorm2d norm;
};

at::Tensor picture(at::ScalarType type, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor values = at::randn({2, kChannels, 17, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  return values.to(type).to(the_host_gpu().place);
}

using Pass = std::function<at::Tensor(const BatchNorm2d&, const at::Tensor&, const at::Tensor&)>;

/// Result, gradients of all inputs, and running statistics.
std::vector<at::Tensor> all_of(const Layer& layer, const Pass& pass, at::ScalarType type, bool adds) {
  const at::Tensor x = picture(type, 4).requires_grad_(), more = picture(type, 5).requires_grad_();
  const at::Tensor y = pass(layer.norm, x * 1, more * 1);
  CHECK(y.scalar_type() == type);
  CHECK(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  (y * picture(type, 6)).sum().backward();
  std::vector<at::Tensor> all = {y.detach(),
                                 x.grad(),
                                 layer.norm.weight.grad(),
                                 layer.norm.bias.grad(),
                                 layer.norm.running_mean,
                                 layer.norm.running_var};
  if (adds) all.push_back(more.grad());
  for (at::Tensor& tensor : all) tensor = tensor.cpu().to(at::kDouble);
  return all;
}

at::Tensor added(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor& more) {
  return norm_add_relu(norm, x, [&] { return more; });
}
at::Tensor alone(const BatchNorm2d& norm, const at::Tensor& x, const at::Tensor&) { return norm_relu(norm, x); }

}  // namespace

TEST_CASE("a norm with a ReLU in passes of its own on a device has the operators' values and gradients") {
  const bool adds = GENERATE(false, true);
  const auto [type, tolerance] =
      GENERATE(std::pair(at::kFloat, 2e-5), std::pair(at::kBFloat16, 0.04), std::pair(at::kHalf, 0.006));
  const Pass pass = adds ? added : alone;
  const Layer operators(false), fused(true);
  CHECK_FALSE(fuses_relu(operators.norm, picture(type, 4)));
  CHECK(fuses_relu(fused.norm, picture(type, 4)));
  const std::vector<at::Tensor> expected = all_of(operators, pass, type, adds), found = all_of(fused, pass, type, adds);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(i << " of " << c10::toString(type) << (adds ? ", with a sum" : ""));
    const double size = std::max(1.0, expected[i].abs().max().item<double>());
    CHECK((found[i] - expected[i]).abs().max().item<double>() < tolerance * size);
  }
  CHECK(fused.norm.num_batches_tracked.item<int64_t>() == 1);
  CHECK(faults().empty());
}

TEST_CASE("in evaluation a device's norm with a ReLU has the running statistics, and leaves them") {
  const Layer operators(false), fused(true);
  for (const Layer* layer : {&operators, &fused}) const_cast<BatchNorm2d&>(layer->norm).eval();
  const at::Tensor before = fused.norm.running_mean.cpu().clone(), x = picture(at::kFloat, 4);
  CHECK_FALSE(fuses_relu(fused.norm, x));  // with a way back
  const at::NoGradGuard no_grad;
  REQUIRE(fuses_relu(fused.norm, x));
  const at::Tensor expected = norm_relu(operators.norm, x).cpu(), found = norm_relu(fused.norm, x).cpu();
  CHECK((found - expected).abs().max().item<double>() < 1e-5);
  CHECK(at::equal(fused.norm.running_mean.cpu(), before));
  CHECK(fused.norm.num_batches_tracked.item<int64_t>() == 0);
}

TEST_CASE("what lies otherwise, has other numbers or no norms of the device is left to the operators") {
  const Layer layer(true);
  const at::Tensor x = picture(at::kFloat, 4);
  CHECK(fuses_relu(layer.norm, x));
  CHECK_FALSE(fuses_relu(layer.norm, x.contiguous()));
  CHECK_FALSE(fuses_relu(layer.norm, x.to(at::kDouble)));
  CHECK_FALSE(fuses_relu(layer.norm, x.cpu()));
  CHECK_FALSE(fuses_relu(layer.norm, x.slice(0, 0, 1).slice(2, 0, 1).slice(3, 0, 1)));  // one value has no variance
  BatchNorm2d without(kChannels);
  without.fuse();
  CHECK_FALSE(fuses_relu(without, x));
}

namespace {

/// Two layers of a dense block and what follows, on the device.
struct Block : Module {
  Block() {
    const auto add = [&](const std::string& name, auto part) { return register_module(name, std::move(part)); };
    for (int64_t i = 0; i < 2; ++i) {
      const std::string n = std::to_string(i);
      norms1.push_back(add("norm1-" + n, std::make_shared<BatchNorm2d>(6 + 3 * i)));
      convs1.push_back(add("conv1-" + n, std::make_shared<Conv2d>(ConvShape{.in = 6 + 3 * i, .out = 7})));
      norms2.push_back(add("norm2-" + n, std::make_shared<BatchNorm2d>(7)));
      convs2.push_back(
          add("conv2-" + n, std::make_shared<Conv2d>(ConvShape{.in = 7, .out = 3, .kernel = 3, .padding = 1})));
    }
    norm = add("norm", std::make_shared<BatchNorm2d>(12));
    conv = add("conv", std::make_shared<Conv2d>(ConvShape{.in = 12, .out = 4}));
    use_norms(&the_host_gpu().module->norms());
    fuse();
    at::manual_seed(9);
    for (const NamedTensor& one : named_parameters()) {
      const at::Tensor values =
          one.tensor.dim() == 4 ? 0.4 * at::randn(one.tensor.sizes()) : at::rand(one.tensor.sizes());
      at::Tensor(one.tensor).set_data(values.to(the_host_gpu().place));
    }
    for (const NamedTensor& one : named_buffers())
      if (one.tensor.is_floating_point()) at::Tensor(one.tensor).set_data(one.tensor.to(the_host_gpu().place));
  }

  at::Tensor by_slab(const at::Tensor& x, bool last) const {
    DeviceSlab slab(x, 12, is_training());
    for (size_t i = 0; i < 2; ++i) slab.add_layer(*norms1[i], *convs1[i], *norms2[i], *convs2[i]);
    return last ? slab.normalised(*norm) : slab.transition(*norm, *conv);
  }
  at::Tensor by_operators(at::Tensor x, bool last) const {
    const auto convolved = [](const Conv2d& by, const at::Tensor& in) {
      const int64_t padding = by.weight.size(2) / 2;
      return at::conv2d(in, by.weight, {}, {1, 1}, {padding, padding});
    };
    const auto normed = [](const BatchNorm2d& by, const at::Tensor& in) { return at::relu(by(in)); };
    for (size_t i = 0; i < 2; ++i)
      x = at::cat({x, convolved(*convs2[i], normed(*norms2[i], convolved(*convs1[i], normed(*norms1[i], x))))}, 1);
    if (last) return normed(*norm, x);
    return at::avg_pool2d(convolved(*conv, normed(*norm, x)), {2, 2}, {2, 2});
  }

  std::vector<std::shared_ptr<BatchNorm2d>> norms1, norms2;
  std::vector<std::shared_ptr<Conv2d>> convs1, convs2;
  std::shared_ptr<BatchNorm2d> norm;
  std::shared_ptr<Conv2d> conv;
};

at::Tensor block_input(at::ScalarType type) {
  at::manual_seed(5);
  return at::randn({2, 6, 9, 7}).contiguous(at::MemoryFormat::ChannelsLast).to(type).to(the_host_gpu().place);
}

}  // namespace

TEST_CASE("a dense block in one tensor of a device has the operators' values, gradients and statistics") {
  const bool last = GENERATE(false, true);
  const auto [type, tolerance] =
      GENERATE(std::pair(at::kFloat, 1e-4), std::pair(at::kBFloat16, 0.12), std::pair(at::kHalf, 0.02));
  std::vector<std::vector<at::Tensor>> both;
  for (const bool slab : {false, true}) {
    const Block block;
    const at::Tensor x = block_input(type).requires_grad_();
    at::Tensor y;
    {
      const AutocastScope autocast(the_host_gpu().place.type(), type == at::kFloat      ? Precision::fp32
                                                                : type == at::kBFloat16 ? Precision::bf16
                                                                                        : Precision::fp16);
      y = slab ? block.by_slab(x * 1, last) : block.by_operators(x * 1, last);
    }
    CHECK(y.scalar_type() == type);
    at::manual_seed(7);
    const at::Tensor weights = at::randn(y.sizes()).to(type).to(the_host_gpu().place);
    (y * weights).sum().backward();
    both.push_back({y.detach().cpu(), x.grad().cpu()});
    for (const NamedTensor& one : block.named_parameters())
      both.back().push_back(one.tensor.grad().defined() ? one.tensor.grad().cpu() : at::zeros({1}));
    for (const NamedTensor& one : block.named_buffers()) both.back().push_back(one.tensor.cpu());
  }
  REQUIRE(both[0].size() == both[1].size());
  for (size_t i = 0; i < both[0].size(); ++i) {
    INFO(i << " of " << c10::toString(type) << (last ? ", the last block" : ", with a transition"));
    const at::Tensor expected = both[0][i].to(at::kDouble), found = both[1][i].to(at::kDouble);
    CHECK((found - expected).abs().max().item<double>() <
          tolerance * std::max(1.0, expected.abs().max().item<double>()));
  }
  CHECK(faults().empty());
}

TEST_CASE("in evaluation a dense block of a device has the running statistics") {
  Block block;
  block.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor x = block_input(at::kFloat);
  REQUIRE(DeviceSlab::serves(*block.norms1[0], x));
  for (const bool last : {false, true}) {
    const at::Tensor expected = block.by_operators(x, last).cpu(), found = block.by_slab(x, last).cpu();
    CHECK((found - expected).abs().max().item<double>() < 1e-4);
  }
}

TEST_CASE("the tests' numbers of 16 bits are LibTorch's") {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  const auto stored = [&](at::ScalarType type) { return at::from_blob(patterns.data(), {65536}, type).to(at::kFloat); };
  const at::Tensor halves = stored(at::kHalf), brains = stored(at::kBFloat16);
  int64_t wrong = 0;
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (size_t i = 0; i < patterns.size(); ++i) {
    const float half = halves.const_data_ptr<float>()[i], brain = brains.const_data_ptr<float>()[i];
    wrong += same(test::float16_value(patterns[i]), half) && same(test::bfloat16_value(patterns[i]), brain) ? 0 : 1;
    // Each, what lies close to it, and what lies halfway to the next.
    for (const float scale : {1.0F, 1.0F + 0x1p-20F, 1.0F + 0x1p-11F, 1.0F + 0x1p-8F, 1.0F + 0x1p-9F}) {
      const float a = half * scale, b = brain * scale;
      const bool right = same(test::float16_value(test::nearest_float16(a)), static_cast<float>(at::Half(a))) &&
                         same(test::bfloat16_value(test::nearest_bfloat16(b)), static_cast<float>(at::BFloat16(b)));
      wrong += right ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}
