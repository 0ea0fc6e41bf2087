// Two convolutions with their norms as one node, against LibTorch's operators one by one.
#include "dtrain/model/double_conv.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "dtrain/model/conv_kernels.hpp"
#include "dtrain/model/functions.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::difference;
using test::wave;

namespace {

// A block of its own, with weights away from 1 and 0.
struct Block {
  Block(int64_t in, int64_t out, at::ScalarType type)
      : conv1({.in = in, .out = out, .kernel = 3, .padding = 1}),
        norm1(out),
        conv2({.in = out, .out = out, .kernel = 3, .padding = 1}),
        norm2(out) {
    conv1.fuse();
    for (at::Tensor* kernel : {&conv1.weight, &conv2.weight})
      kernel->set_data(wave(kernel->sizes(), 1.3, type).contiguous(at::MemoryFormat::ChannelsLast));
    for (BatchNorm2d* norm : {&norm1, &norm2}) {
      norm->weight.set_data(wave({out}, 0.9, type) + 0.4);
      norm->bias.set_data(wave({out}, 1.7, type) * 0.3);
      norm->running_mean.set_data(wave({out}, 0.5, type));
      norm->running_var.set_data(wave({out}, 0.7, type) + 1.5);
    }
  }

  DoubleConvLayers layers() const { return {conv1, norm1, conv2, norm2}; }
  at::Tensor plain(const at::Tensor& x) const { return at::relu(norm2(conv2(at::relu(norm1(conv1(x)))))); }
  std::vector<at::Tensor> parameters() const {
    return {conv1.weight, norm1.weight, norm1.bias, conv2.weight, norm2.weight, norm2.bias};
  }

  Conv2d conv1;
  BatchNorm2d norm1;
  Conv2d conv2;
  BatchNorm2d norm2;
};

struct Shape {
  int64_t pictures, in, out, height, width;
};

at::Tensor picture(const Shape& s, at::ScalarType type) {
  return wave({s.pictures, s.in, s.height, s.width}, 0.37, type).contiguous(at::MemoryFormat::ChannelsLast);
}

// Output, gradients of picture and parameters, statistics.
std::vector<at::Tensor> outcome(const Shape& s, at::ScalarType type, bool fused) {
  const Block block(s.in, s.out, type);
  const at::Tensor x = picture(s, type).requires_grad_();
  REQUIRE(fuses(block.layers(), {x}));
  const at::Tensor y = fused ? fused_double_conv(block.layers(), {x}) : block.plain(x);
  (y * wave(y.sizes(), 0.11, type)).sum().backward();
  std::vector<at::Tensor> all = {y.detach(), x.grad()};
  for (const at::Tensor& parameter : block.parameters()) all.push_back(parameter.grad());
  for (const BatchNorm2d* norm : {&block.norm1, &block.norm2})
    all.insert(all.end(), {norm->running_mean, norm->running_var, norm->num_batches_tracked});
  return all;
}

const auto kShapes = std::array{
    Shape{4, 1, 8, 7, 5},      // narrower than a vector, one channel
    Shape{1, 8, 8, 70, 34},    // one picture, several strips, a tail behind whole vectors
    Shape{2, 16, 8, 33, 100},  // more inputs than outputs, two looks ahead
    Shape{2, 3, 16, 5, 17},    // a number of channels that no vector has
    Shape{2, 8, 16, 1, 16},    // one line
    Shape{4, 12, 4, 6, 1},     // one column
    Shape{1, 8, 8, 40, 300},   // fewer lines at once, since they are long
    Shape{1, 2, 4, 5, 1104},   // two lines at once
    Shape{1, 8, 16, 34, 224},  // lines a multiple of 1 KiB apart
    Shape{2, 8, 8, 259, 16},   // several strips in evaluation
};

}  // namespace

TEST_CASE("two convolutions as one node compute what the operators compute, in float64 to 1e-10") {
  for (const Shape& shape : kShapes) {
    const auto plain = outcome(shape, at::kDouble, false), fused = outcome(shape, at::kDouble, true);
    REQUIRE(plain.size() == fused.size());
    for (size_t i = 0; i < plain.size(); ++i) {
      INFO(shape.in << " to " << shape.out << " at " << shape.height << " x " << shape.width << ", number " << i);
      CHECK(difference(fused[i], plain[i]) < 1e-10);
    }
  }
}

TEST_CASE("in 32 bits two convolutions as one node are as near to float64 as the operators are", "[vectors]") {
  for (const Shape& shape : kShapes) {
    const auto exact = outcome(shape, at::kDouble, false), fused = outcome(shape, at::kFloat, true);
    for (size_t i = 0; i < exact.size(); ++i) {
      INFO(shape.in << " to " << shape.out << " at " << shape.height << " x " << shape.width << ", number " << i);
      CHECK(difference(fused[i], exact[i]) < 2e-4);
    }
  }
}

TEST_CASE("two convolutions as one node use running statistics in evaluation mode") {
  Block block(8, 16, at::kDouble);
  for (BatchNorm2d* norm : {&block.norm1, &block.norm2}) {
    CHECK(fuses(block.layers(), {picture({2, 8, 16, 9, 20}, at::kDouble)}) ==
          (norm == &block.norm1));  // not one of both
    norm->eval();
  }
  CHECK_FALSE(fuses(block.layers(), {picture({2, 8, 16, 9, 20}, at::kDouble)}));  // there is no way back with them
}

TEST_CASE("in evaluation two convolutions as one node compute what the operators compute", "[vectors]") {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const Shape& shape : kShapes) {
      Block block(shape.in, shape.out, type);
      for (BatchNorm2d* norm : {&block.norm1, &block.norm2}) norm->eval();
      const at::Tensor x = picture(shape, type);
      REQUIRE(fuses(block.layers(), {x}));
      const auto on = [&](int threads) {
        return test::on_threads(threads, [&] { return fused_double_conv(block.layers(), {x}); });
      };
      const at::Tensor y = on(1);
      INFO(shape.in << " to " << shape.out << " at " << shape.height << " x " << shape.width);
      CHECK(difference(y, block.plain(x)) < (type == at::kDouble ? 1e-10 : 1e-5));
      CHECK(test::same_bits(on(3), y));
      if (shape.width == 1 || shape.height == 1) {
        CHECK_FALSE(evaluates(block.layers(), x));  // nothing to pool
        continue;
      }
      REQUIRE(evaluates(block.layers(), x));
      const at::Tensor pooled = max_pool(y, Window{2, 2, 0}, "pool");
      for (const int threads : {1, 3}) {
        const auto both = test::on_threads(threads, [&] { return evaluated_double_conv(block.layers(), x); });
        CHECK(test::same_bits(both.maps, y));
        CHECK(test::same_bits(both.pooled, pooled));
      }
    }
  }
}

TEST_CASE("two convolutions as one node read parts as their concatenation, to the bit", "[vectors]") {
  const std::vector<int64_t> channels = GENERATE(std::vector<int64_t>{8, 8}, std::vector<int64_t>{16, 8});
  const int64_t in = channels[0] + channels[1];
  const auto outcome = [&](bool apart, bool training) {
    Block block(in, 8, at::kFloat);
    for (BatchNorm2d* norm : {&block.norm1, &block.norm2}) norm->train(training);
    const at::AutoGradMode history(training);
    Parts<at::Tensor> parts;
    for (const int64_t count : channels)
      parts.push_back(wave({2, count, 133, 24}, 0.3 + static_cast<double>(parts.size()), at::kFloat)
                          .contiguous(at::MemoryFormat::ChannelsLast)
                          .requires_grad_(training));
    const Parts<at::Tensor> whole{at::cat(parts, 1)};
    REQUIRE(fuses(block.layers(), apart ? parts : whole));
    const at::Tensor y = fused_double_conv(block.layers(), apart ? parts : whole);
    std::vector<at::Tensor> all = {y.detach()};
    if (!training) return all;
    (y * wave(y.sizes(), 0.11, at::kFloat)).sum().backward();
    for (const at::Tensor& part : parts) all.push_back(part.grad());
    for (const at::Tensor& parameter : block.parameters()) all.push_back(parameter.grad());
    return all;
  };
  for (const bool training : {true, false}) {
    const auto apart = outcome(true, training), together = outcome(false, training);
    REQUIRE(apart.size() == together.size());
    for (size_t i = 0; i < apart.size(); ++i) {
      INFO((training ? "training" : "evaluation") << ", number " << i);
      CHECK(test::same_bits(apart[i].contiguous(), together[i].contiguous()));
    }
  }
}

TEST_CASE("parts whose channels fill no group are left to a concatenation") {
  const Block block(16, 8, at::kFloat);
  const auto part = [](int64_t channels) { return picture({2, channels, 8, 16, 20}, at::kFloat); };
  CHECK(fuses(block.layers(), {part(8), part(8)}));
  CHECK_FALSE(fuses(block.layers(), {part(12), part(4)}));
  CHECK_FALSE(fuses(block.layers(), {part(8), part(8).contiguous()}));
  CHECK_FALSE(fuses(block.layers(), {part(8), part(16)}));
  CHECK_FALSE(fuses(block.layers(), {part(8), picture({2, 8, 8, 8, 20}, at::kFloat)}));
}

TEST_CASE("one part of two convolutions as one node may need no gradient") {
  const auto gradients = [](bool first, bool second) {
    const Block block(16, 8, at::kDouble);
    const auto part = [](double phase, bool wants) {
      return wave({2, 8, 12, 20}, phase, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(wants);
    };
    const Parts<at::Tensor> x{part(0.3, first), part(0.7, second)};
    const at::Tensor y = fused_double_conv(block.layers(), x);
    (y * wave(y.sizes(), 0.11, at::kDouble)).sum().backward();
    return std::array{x[0].grad(), x[1].grad(), block.conv1.weight.grad()};
  };
  const auto all = gradients(true, true), second = gradients(false, true), none = gradients(false, false);
  CHECK(test::same_bits(second[1], all[1]));
  CHECK_FALSE(second[0].defined());
  for (const auto& other : {second, none}) CHECK(test::same_bits(other[2], all[2]));
}

TEST_CASE("lines of half the size hold the largest of two by two, in the operator's order", "[vectors]") {
  const int64_t pixels = GENERATE(2, 17, 32, 75), channels = 3;
  at::Tensor lines = wave({1, channels, 2, pixels}, 0.7, at::kFloat);
  for (int64_t window = 0; window < std::min<int64_t>(4, pixels / 2); ++window)  // a NaN in each place of one
    lines[0][0][window / 2][2 * window + window % 2] = std::numeric_limits<float>::quiet_NaN();
  lines[0][2].slice(1, 0, 2).fill_(-std::numeric_limits<float>::infinity());
  lines[0][1].slice(1, 0, 2).zero_();
  lines[0][1][0][0] = -0.0F;
  const at::Tensor expected = at::max_pool2d(lines, {2, 2})[0].select(1, 0);
  for (const ConvKernels<float>* kernels : {&kPlainConv, &conv_kernels<float>()}) {
    const int64_t stride = pixels + 4 * kernels->lanes;
    const at::Tensor memory = at::zeros({3, channels, stride});
    const auto planes = [&](int64_t which) {
      return Planes<float>{memory[which].data_ptr<float>() + kernels->lanes, stride};
    };
    const auto inside = [&](int64_t which, int64_t count) {
      return memory[which].slice(1, kernels->lanes, kernels->lanes + count);
    };
    for (int64_t i = 0; i < 2; ++i) inside(i, pixels).copy_(lines[0].select(1, i));
    kernels->halve(pixels, channels, {planes(0).data, stride}, {planes(1).data, stride}, planes(2));
    CHECK(test::same_bits(inside(2, pixels / 2).contiguous(), expected.contiguous()));
  }
}

TEST_CASE("frozen parameters of two convolutions as one node get no gradient, and change no other") {
  const Shape shape{2, 8, 8, 12, 20};
  const auto all = outcome(shape, at::kDouble, true);
  for (size_t frozen = 0; frozen < 6; ++frozen) {
    const Block block(shape.in, shape.out, at::kDouble);
    for (size_t i = 0; i <= frozen; ++i) block.parameters()[i].requires_grad_(false);
    const at::Tensor x = picture(shape, at::kDouble);
    const at::Tensor y = fused_double_conv(block.layers(), {x});
    CHECK(y.requires_grad() == (frozen < 5));
    if (frozen == 5) continue;
    (y * wave(y.sizes(), 0.11, at::kDouble)).sum().backward();
    for (size_t i = 0; i < 6; ++i) {
      INFO(frozen << " frozen, parameter " << i);
      CHECK(block.parameters()[i].grad().defined() == (i > frozen));
      if (i > frozen) CHECK(test::same_bits(block.parameters()[i].grad(), all[i + 2]));
    }
  }
}

TEST_CASE("one frozen parameter of two convolutions as one node changes no other gradient, nor the picture's") {
  const Shape shape{2, 8, 8, 12, 20};
  const auto all = outcome(shape, at::kDouble, true);
  for (size_t frozen = 0; frozen < 6; ++frozen) {
    INFO("parameter " << frozen);
    const Block block(shape.in, shape.out, at::kDouble);
    block.parameters()[frozen].requires_grad_(false);
    const at::Tensor x = picture(shape, at::kDouble).requires_grad_();
    (fused_double_conv(block.layers(), {x}) * wave(all.front().sizes(), 0.11, at::kDouble)).sum().backward();
    CHECK(test::same_bits(x.grad(), all[1]));
    for (size_t i = 0; i < 6; ++i)
      CHECK((i == frozen ? !block.parameters()[i].grad().defined()
                         : test::same_bits(block.parameters()[i].grad(), all[i + 2])));
  }
}

TEST_CASE("pictures in another order, and many channels, are left to the operators") {
  const Block few(8, 8, at::kFloat), many(8, 32, at::kFloat);
  const at::Tensor x = picture({2, 8, 8, 16, 20}, at::kFloat);
  CHECK(fuses(few.layers(), {x}));
  CHECK_FALSE(fuses(many.layers(), {x}));
  CHECK_FALSE(fuses(few.layers(), {x.contiguous()}));
  CHECK_FALSE(fuses(few.layers(), {x.slice(3, 0, 10)}));
}

TEST_CASE("two convolutions as one node have the same bits with any number of threads", "[vectors]") {
  const auto on = [](int threads) {
    return test::on_threads(threads, [] { return outcome({2, 8, 16, 70, 40}, at::kFloat, true); });
  };
  const auto one = on(1), three = on(3);
  for (size_t i = 0; i < one.size(); ++i) CHECK(test::same_bits(one[i], three[i]));
}

TEST_CASE("what is no number stays so through two convolutions as one node", "[vectors]") {
  const Block block(8, 8, at::kFloat);
  at::Tensor x = picture({2, 8, 8, 16, 20}, at::kFloat);
  x[0][0][3][3] = std::numeric_limits<float>::quiet_NaN();
  CHECK(fused_double_conv(block.layers(), {x}).isnan().all().item<bool>());
}

TEST_CASE("in evaluation what is no number stays so where two convolutions and their pooling read it", "[vectors]") {
  const at::NoGradGuard no_grad;
  Block block(8, 8, at::kFloat);
  for (BatchNorm2d* norm : {&block.norm1, &block.norm2}) norm->eval();
  at::Tensor x = picture({2, 8, 8, 16, 20}, at::kFloat);
  x[1][0][7][9] = std::numeric_limits<float>::quiet_NaN();
  const PooledMaps<at::Tensor> y = evaluated_double_conv(block.layers(), x);
  CHECK(y.maps[1].slice(1, 5, 10).slice(2, 7, 12).isnan().all().item<bool>());
  CHECK(y.pooled[1].slice(1, 3, 5).slice(2, 4, 6).isnan().all().item<bool>());
  CHECK_FALSE(y.maps[0].isnan().any().item<bool>());
}

TEST_CASE("planes give back the pixels that they were made of", "[vectors]") {
  const int64_t pixels = GENERATE(1, 15, 16, 37), channels = GENERATE(1, 3, 8, 24);
  const at::Tensor from = wave({pixels, channels}, 0.3, at::kFloat), to = at::zeros_like(from);
  for (const ConvKernels<float>* kernels : {&kPlainConv, &conv_kernels<float>()}) {
    const int64_t stride = pixels + 3 * kernels->lanes;
    const at::Tensor memory = at::full({channels, stride}, 7.0F);
    const Planes<float> planes{memory.data_ptr<float>() + kernels->lanes, stride};
    kernels->to_planes(pixels, channels, from.const_data_ptr<float>(), planes);
    const at::Tensor inside = memory.slice(1, kernels->lanes, kernels->lanes + pixels);
    CHECK(at::equal(inside, from.t()));
    CHECK(*planes.at(channels - 1, pixels).data == 0);
    kernels->to_pixels(pixels, channels, {planes.data, stride}, to.data_ptr<float>());
    CHECK(at::equal(to, from));
  }
}

TEST_CASE("a fused 1x1 convolution is the plain one, in float64 to 1e-10 and in 32 bits to 1e-5") {
  const Shape shape = GENERATE(Shape{2, 8, 1, 12, 20}, Shape{1, 16, 24, 7, 7}, Shape{3, 1, 5, 1, 9});
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const auto outcome = [&](bool fast, at::ScalarType of) {
      Conv2d conv({.in = shape.in, .out = shape.out, .bias = true});
      conv.fuse(fast);
      conv.weight.set_data(wave(conv.weight.sizes(), 1.3, of).contiguous(at::MemoryFormat::ChannelsLast));
      conv.bias.set_data(wave(conv.bias.sizes(), 0.9, of));
      const at::Tensor x = picture(shape, of).requires_grad_();
      const at::Tensor y = conv(x);
      if (fast) CHECK(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      (y * wave(y.sizes(), 0.11, of)).sum().backward();
      return std::array{y.detach(), x.grad(), conv.weight.grad(), conv.bias.grad()};
    };
    const auto exact = outcome(false, at::kDouble), fast = outcome(true, type);
    for (size_t i = 0; i < exact.size(); ++i) {
      INFO(shape.in << " to " << shape.out << ", number " << i);
      CHECK(difference(fast[i], exact[i]) < (type == at::kDouble ? 1e-10 : 1e-5));
    }
  }
}
