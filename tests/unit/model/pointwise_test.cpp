// 1x1 convolutions as products, and what an epilogue makes of them, against LibTorch's operators in float64.
#include "dtrain/model/pointwise.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/fused_layers.hpp"
#include "dtrain/model/layers.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::kNhwc;
using test::wave;

namespace {

struct PointwiseCase {
  int64_t pictures, in, out, height, width, stride;
};

const auto kCases = std::array{
    PointwiseCase{1, 32, 32, 1, 1, 1},     // one pixel
    PointwiseCase{1, 32, 64, 1, 1, 2},     // with a stride, too
    PointwiseCase{2, 64, 288, 9, 11, 1},   // several panels, more columns than wait for an epilogue at once
    PointwiseCase{3, 96, 32, 7, 7, 2},     // an odd number of lines and columns
    PointwiseCase{2, 32, 64, 8, 10, 2},    // an even one
    PointwiseCase{2, 32, 64, 10, 7, 3},    // pixels behind the last that is read
    PointwiseCase{2, 32, 320, 41, 40, 1},  // so large that it goes past the caches
};

struct PointwiseOperands {
  PointwiseOperands(const PointwiseCase& s, at::ScalarType type)
      : stride(s.stride),
        x(wave({s.pictures, s.in, s.height, s.width}, 0.37, type).contiguous(kNhwc)),
        kernel(wave({s.out, s.in, 1, 1}, 1.3, type)),
        dy(wave({s.pictures, s.out, (s.height - 1) / s.stride + 1, (s.width - 1) / s.stride + 1}, 0.11, type)
               .contiguous(kNhwc)) {}

  int64_t stride;
  at::Tensor x, kernel, dy;
};

using PointwiseOutcome = std::array<at::Tensor, 3>;  // result, gradients of picture and kernel

PointwiseOutcome by_operators(const PointwiseOperands& o) {
  const std::array<int64_t, 2> stride{o.stride, o.stride}, one{1, 1}, none{0, 0};
  auto [dx, dw, db] = at::convolution_backward(o.dy, o.x, o.kernel, std::nullopt, stride, none, one, false, none, 1,
                                               {true, true, false});
  return {at::conv2d(o.x, o.kernel, std::nullopt, stride), dx, dw};
}

PointwiseOutcome by_products(const PointwiseOperands& o) {
  return {pointwise(o.x, o.kernel, o.stride), pointwise_input_back(o.dy, o.kernel, o.stride, o.x.sizes()),
          pointwise_kernel_back(o.x, o.dy, o.stride)};
}

NormScales scales_for(int64_t channels, at::ScalarType type) {
  NormScales scales;
  scales.scale = 1 + 0.5 * wave({channels}, 1.7, type);
  scales.shift = 0.3 * wave({channels}, 0.6, type);
  scales.mean = at::zeros({channels}, type);
  return scales;
}

at::Tensor by_hand(const at::Tensor& y, const Epilogue& epilogue) {
  const auto of_channels = [](const at::Tensor& t) { return t.view({1, -1, 1, 1}); };
  at::Tensor z = y * of_channels(epilogue.norm.scale) + of_channels(epilogue.norm.shift);
  if (epilogue.more.defined()) z = z + as_picture(epilogue.more, {y.size(0), y.size(2), y.size(3)});
  return epilogue.rectified ? z.relu() : z;
}

// Of a result like this: a norm, with ReLU, with an addition and ReLU.
std::array<Epilogue, 3> epilogues_for(const at::Tensor& y) {
  const NormScales norm = scales_for(y.size(1), y.scalar_type());
  const at::Tensor more = as_rows(wave(y.sizes(), 0.23, y.scalar_type()).contiguous(kNhwc));
  return {Epilogue{.norm = norm, .rectified = false}, Epilogue{.norm = norm}, Epilogue{.norm = norm, .more = more}};
}

}  // namespace

TEST_CASE("a 1x1 convolution by products is LibTorch's, in float64 to 1e-12 and in 32 bits to 1e-5", "[vectors]") {
  for (const PointwiseCase& shape : kCases) {
    INFO(shape.in << " to " << shape.out << " at " << shape.height << " x " << shape.width << " by " << shape.stride);
    const PointwiseOutcome exact = by_operators({shape, at::kDouble});
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const PointwiseOutcome found = by_products({shape, type});
      for (size_t i = 0; i < exact.size(); ++i) {
        INFO("number " << i);
        REQUIRE(found[i].sizes() == exact[i].sizes());
        CHECK((i == 2 || found[i].is_contiguous(kNhwc)));
        CHECK(test::relative_error(found[i], exact[i]) < (type == at::kDouble ? 1e-12 : 1e-5));
      }
    }
  }
}

TEST_CASE("by products a kernel's order in memory changes no bit, nor does the number of threads", "[vectors]") {
  const PointwiseOperands operands(kCases[2], at::kFloat);
  PointwiseOperands turned = operands;
  turned.kernel = operands.kernel.permute({1, 0, 2, 3}).contiguous().permute({1, 0, 2, 3});
  const auto on = [](int threads, const PointwiseOperands& o) {
    return test::on_threads(threads, [&] { return by_products(o); });
  };
  const PointwiseOutcome one = on(1, operands);
  for (const PointwiseOutcome& other : {on(1, turned), on(2, operands), on(3, operands)})
    for (size_t i = 0; i < one.size(); ++i) CHECK(test::same_bits(one[i], other[i]));
}

TEST_CASE("by products a picture's result and gradient do not depend on the others of its batch", "[vectors]") {
  const PointwiseOperands all({5, 32, 64, 39, 33, 1}, at::kFloat);
  const PointwiseOutcome together = by_products(all);
  REQUIRE(streams(as_rows(together[0])));
  for (int64_t i = 0; i < 5; ++i) {
    PointwiseOperands one = all;
    one.x = all.x.narrow(0, i, 1);
    one.dy = all.dy.narrow(0, i, 1);
    const PointwiseOutcome alone = by_products(one);
    REQUIRE_FALSE(streams(as_rows(alone[0])));
    for (size_t k = 0; k < 2; ++k) CHECK(test::same_bits(alone[k], together[k].narrow(0, i, 1)));
  }
}

TEST_CASE("an epilogue is norm, addition and ReLU, whichever way a convolution is computed", "[vectors]") {
  const ConvShape shape =
      GENERATE(ConvShape{.in = 64, .out = 288}, ConvShape{.in = 32, .out = 64, .stride = 2},
               ConvShape{.in = 32, .out = 64, .kernel = 3, .padding = 1},
               ConvShape{.in = 32, .out = 64, .kernel = 3, .stride = 2, .padding = 1}, ConvShape{.in = 7, .out = 32});
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    INFO(shape.in << " to " << shape.out << ", " << shape.kernel << " by " << shape.stride << ", " << type);
    Conv2d conv(shape);
    conv.fuse();
    conv.weight.set_data(wave(conv.weight.sizes(), 1.3, type).contiguous(kNhwc));
    const at::Tensor x = wave({2, shape.in, 13, 10}, 0.37, type).contiguous(kNhwc);
    const at::NoGradGuard no_grad;
    const at::Tensor y =
        at::conv2d(x, conv.weight, std::nullopt, {shape.stride, shape.stride}, {shape.padding, shape.padding});
    CHECK(test::same_bits(conv.with_epilogue(x, {}), conv(x)));
    for (const Epilogue& epilogue : epilogues_for(y)) {
      const at::Tensor z = conv.with_epilogue(x, epilogue);
      CHECK(z.is_contiguous(kNhwc));
      CHECK(test::relative_error(z, by_hand(y, epilogue)) < (type == at::kDouble ? 1e-12 : 1e-5));
    }
  }
}

TEST_CASE("an epilogue depends on neither threads nor other pictures", "[vectors]") {
  const ConvShape shape =
      GENERATE(ConvShape{.in = 64, .out = 288}, ConvShape{.in = 32, .out = 64, .kernel = 3, .padding = 1});
  const at::NoGradGuard no_grad;
  Conv2d conv(shape);
  conv.fuse();
  conv.weight.set_data(wave(conv.weight.sizes(), 1.3, at::kFloat).contiguous(kNhwc));
  const at::Tensor x = wave({3, shape.in, 37, 26}, 0.37, at::kFloat).contiguous(kNhwc);
  for (const Epilogue& epilogue : epilogues_for(conv(x))) {
    const auto on = [&](int threads) {
      return test::on_threads(threads, [&] { return conv.with_epilogue(x, epilogue); });
    };
    const at::Tensor z = on(1);
    for (int64_t i = 0; i < 3; ++i) {
      Epilogue of_one = epilogue;
      if (epilogue.more.defined()) of_one.more = epilogue.more.view({3, -1, shape.out})[i];
      CHECK(test::same_bits(conv.with_epilogue(x.narrow(0, i, 1), of_one), z.narrow(0, i, 1)));
    }
    CHECK(test::same_bits(on(3), z));
  }
}

TEST_CASE("an epilogue that adds something has a ReLU, and as many values to add") {
  const at::Tensor y = at::ones({8, 32});
  const NormScales norm = scales_for(32, at::kFloat);
  CHECK_THROWS_AS(apply_in_place({.norm = norm, .more = y, .rectified = false}, y), InternalError);
  CHECK_THROWS_AS(apply_in_place({.norm = norm, .more = y.narrow(0, 0, 4)}, y), InternalError);
}

TEST_CASE("a norm joins its convolution in evaluation alone, for NHWC pictures to multiples of 32 channels") {
  const auto asked = [](int64_t channels, bool training, bool gradients, at::MemoryFormat format) {
    BatchNorm2d norm(channels);
    norm.fuse();
    norm.train(training);
    const at::AutoGradMode mode(gradients);
    return evaluates(norm, at::zeros({2, 5, 4, 6}).contiguous(format));
  };
  CHECK(asked(64, false, false, kNhwc));
  CHECK_FALSE(asked(64, true, false, kNhwc));
  CHECK_FALSE(asked(64, false, true, kNhwc));
  CHECK_FALSE(asked(48, false, false, kNhwc));
  CHECK_FALSE(asked(64, false, false, at::MemoryFormat::Contiguous));
}

TEST_CASE("what goes past the caches has the bits of what stays in them", "[vectors]") {
  const int64_t rows = GENERATE(1, 7, 96);
  constexpr int64_t kColumnsHere = 96, kDepth = 33;
  const RowKernels<float>& kernels = row_kernels<float>();
  const auto matrix = [&](double step) { return wave({rows, kColumnsHere}, step, at::kFloat); };
  const auto of = [](const at::Tensor& m) { return Rows<const float>{m.const_data_ptr<float>(), m.stride(0)}; };
  const NormScales norm = scales_for(kColumnsHere, at::kFloat);
  const at::Tensor x = matrix(0.3), more = matrix(0.7), a = wave({rows, kDepth}, 0.2, at::kFloat),
                   packed = wave({kDepth * kColumnsHere}, 0.9, at::kFloat);
  const auto columns = norm.columns<float>();
  using Pass = std::function<void(Rows<float>, bool)>;
  const std::vector<Pass> passes = {
      [&](Rows<float> y, bool streamed) { kernels.normalise(rows, kColumnsHere, of(x), columns, y, streamed); },
      [&](Rows<float> y, bool streamed) { kernels.scale(rows, kColumnsHere, of(x), columns, y, streamed); },
      [&](Rows<float> y, bool streamed) {
        kernels.normalise_sum(rows, kColumnsHere, of(x), columns, of(more), y, streamed);
      },
      [&](Rows<float> y, bool streamed) {
        kernels.centre_back(rows, kColumnsHere, of(x), of(more), columns.mean, columns.scale, columns.shift,
                            columns.scale, y, streamed);
      },
      [&](Rows<float> y, bool streamed) {
        kernels.multiply(rows, kColumnsHere, kDepth, of(a), packed.const_data_ptr<float>(), y, streamed);
      }};
  for (size_t i = 0; i < passes.size(); ++i) {
    INFO("pass " << i);
    const at::Tensor kept = at::full({rows, kColumnsHere}, 7.0F), streamed = at::full({rows, kColumnsHere}, 8.0F);
    passes[i]({kept.data_ptr<float>(), kColumnsHere}, false);
    passes[i]({streamed.data_ptr<float>(), kColumnsHere}, true);
    CHECK(test::same_bits(kept, streamed));
  }
}

TEST_CASE("large matrices whose rows are whole cache lines go past the caches") {
  constexpr int64_t kMany = 1 << 13;
  const at::Tensor large = at::empty({kMany, 64});
  CHECK(streams(large));
  CHECK_FALSE(streams(large.narrow(0, 0, kMany / 4)));
  CHECK_FALSE(streams(large.narrow(1, 3, 32)));
  CHECK_FALSE(streams(at::empty({kMany, 72})));
}

TEST_CASE("matrices are packed by vectors as one by one", "[vectors]") {
  const int64_t depth = GENERATE(1, 16, 37);
  for (const RowKernels<float>* kernels : {&kPlainRows, &row_kernels<float>()}) {
    const int64_t columns = 2 * kernels->tile;
    const at::Tensor matrix = wave({depth, columns}, 0.37, at::kFloat), lines = matrix.t().contiguous();
    const at::Tensor packed = at::empty({columns / kernels->tile, depth, kernels->tile});
    const at::Tensor expected = matrix.view({depth, -1, kernels->tile}).permute({1, 0, 2}).contiguous();
    kernels->pack(depth, columns, matrix.const_data_ptr<float>(), columns, 1, packed.data_ptr<float>());
    CHECK(test::same_bits(packed, expected));
    packed.zero_();
    kernels->pack(depth, columns, lines.const_data_ptr<float>(), 1, depth, packed.data_ptr<float>());
    CHECK(test::same_bits(packed, expected));
  }
}

TEST_CASE("1x1 convolutions by products are for NHWC pictures of multiples of 32 channels") {
  const auto picture = [](int64_t channels, at::ScalarType type) {
    return at::zeros({2, channels, 4, 6}, type).contiguous(kNhwc);
  };
  CHECK(pointwise_serves(picture(32, at::kFloat), 64));
  CHECK(pointwise_serves(picture(64, at::kDouble), 32));
  CHECK_FALSE(pointwise_serves(picture(16, at::kFloat), 64));
  CHECK_FALSE(pointwise_serves(picture(32, at::kFloat), 1));
  CHECK_FALSE(pointwise_serves(picture(32, at::kBFloat16), 64));
  CHECK_FALSE(pointwise_serves(at::zeros({2, 32, 4, 6}), 64));
  CHECK(pointwise_workspace(32, 64) > 32 * 64);
  CHECK(pointwise_workspace(16, 64) == 0);
}

TEST_CASE("a fused 1x1 convolution goes back by products, each gradient only where it is wanted") {
  const PointwiseOperands operands(kCases[3], at::kDouble);
  const PointwiseOutcome exact = by_operators(operands);
  const size_t frozen = GENERATE(0, 1, 2);  // 0: none, else the number of the picture or the kernel
  Conv2d conv({.in = 96, .out = 32, .stride = 2});
  conv.fuse();
  conv.weight.set_data(operands.kernel);
  const at::Tensor x = operands.x.clone();
  const std::vector<at::Tensor> inputs = {x, conv.weight};
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].requires_grad_(i + 1 != frozen);
  const at::Tensor y = conv(x);
  CHECK(test::same_bits(y, pointwise(operands.x, operands.kernel, 2)));
  y.backward(operands.dy);
  for (size_t i = 0; i < inputs.size(); ++i) {
    REQUIRE(inputs[i].grad().defined() == (i + 1 != frozen));
    if (i + 1 != frozen) CHECK(test::relative_error(inputs[i].grad(), exact[i + 1]) < 1e-12);
  }
}
