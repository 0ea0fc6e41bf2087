// 3x3 convolutions by Winograd's minimal filtering, against direct ones in float64.
#include "dtrain/model/winograd.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "dtrain/model/layers.hpp"
#include "dtrain/model/winograd_kernels.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::kNhwc;
using test::wave;

namespace {

struct PictureShape {
  int64_t pictures, in, out, height, width;
};

const auto kPictureShapes = std::array{
    PictureShape{1, 32, 32, 1, 1},    // one pixel
    PictureShape{2, 32, 64, 2, 3},    // two tiles, one of them half outside
    PictureShape{3, 64, 32, 7, 7},    // fewer tiles than a panel
    PictureShape{2, 96, 32, 14, 14},  // no tile outside, a panel and a bit
    PictureShape{2, 32, 96, 1, 37},   // one line
    PictureShape{1, 32, 32, 40, 1},   // one column
    PictureShape{2, 64, 64, 33, 21},  // several panels, several times the tiles that the kernel's sums take
};

struct Operands {
  Operands(const PictureShape& s, at::ScalarType type)
      : x(wave({s.pictures, s.in, s.height, s.width}, 0.37, type).contiguous(kNhwc)),
        kernel(wave({s.out, s.in, 3, 3}, 1.3, type)),
        bias(wave({s.out}, 0.9, type)),
        dy(wave({s.pictures, s.out, s.height, s.width}, 0.11, type).contiguous(kNhwc)) {}

  at::Tensor x, kernel, bias, dy;
};

using ConvOutcome = std::array<at::Tensor, 4>;  // result, gradients of picture, kernel and bias

ConvOutcome direct(const Operands& o) {
  const std::array<int64_t, 2> one{1, 1}, none{0, 0};
  const at::Tensor y = at::conv2d(o.x, o.kernel, o.bias, one, one);
  auto [dx, dw, db] = at::convolution_backward(o.dy, o.x, o.kernel, at::IntArrayRef(o.bias.sizes()), one, one, one,
                                               false, none, 1, {true, true, true});
  return {y, dx, dw, db};
}

ConvOutcome by_tiles(const Operands& o) {
  const WinogradGradients back = winograd_kernel_back(o.x, o.dy, true);
  return {winograd(o.x, o.kernel, o.bias), winograd_input_back(o.dy, o.kernel), back.kernel, back.bias};
}

void check_near(const ConvOutcome& found, const ConvOutcome& exact, double bound) {
  for (size_t i = 0; i < exact.size(); ++i) {
    INFO("number " << i);
    CHECK(test::relative_error(found[i], exact[i]) < bound);
  }
}

}  // namespace

TEST_CASE("a convolution by tiles is the direct one, in float64 to 1e-12 and in 32 bits to 1e-5", "[vectors]") {
  for (const PictureShape& shape : kPictureShapes) {
    INFO(shape.in << " to " << shape.out << " at " << shape.height << " x " << shape.width);
    const ConvOutcome exact = direct({shape, at::kDouble});
    check_near(by_tiles({shape, at::kDouble}), exact, 1e-12);
    check_near(by_tiles({shape, at::kFloat}), exact, 1e-5);
  }
}

TEST_CASE("by tiles a kernel in channels-last gives the same bits, and no bias is one of zeros", "[vectors]") {
  const Operands operands(kPictureShapes[1], at::kFloat);
  Operands other = operands;
  other.kernel = operands.kernel.contiguous(kNhwc);
  const ConvOutcome one = by_tiles(operands), two = by_tiles(other);
  for (size_t i = 0; i < one.size(); ++i) CHECK(test::same_bits(one[i], two[i]));
  CHECK(at::equal(winograd(operands.x, operands.kernel), winograd(operands.x, operands.kernel, operands.bias * 0)));
}

TEST_CASE("a convolution by tiles has the same bits with any number of threads", "[vectors]") {
  const Operands operands(kPictureShapes.back(), at::kFloat);
  const auto on = [&](int threads) { return test::on_threads(threads, [&] { return by_tiles(operands); }); };
  const ConvOutcome one = on(1);
  for (const ConvOutcome& more : {on(2), on(3)})
    for (size_t i = 0; i < one.size(); ++i) CHECK(test::same_bits(one[i], more[i]));
}

TEST_CASE("by tiles a picture's result and gradient do not depend on the others of its batch", "[vectors]") {
  const Operands all({5, 32, 64, 9, 13}, at::kFloat);
  const at::Tensor y = winograd(all.x, all.kernel), dx = winograd_input_back(all.dy, all.kernel);
  for (int64_t i = 0; i < 5; ++i) {
    CHECK(test::same_bits(winograd(all.x.narrow(0, i, 1), all.kernel), y.narrow(0, i, 1)));
    CHECK(test::same_bits(winograd_input_back(all.dy.narrow(0, i, 1), all.kernel), dx.narrow(0, i, 1)));
  }
}

TEST_CASE("what is no number stays so through a convolution by tiles", "[vectors]") {
  Operands operands(kPictureShapes[3], at::kFloat);
  operands.x[1][5][6][7] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor isnan = winograd(operands.x, operands.kernel).isnan();
  CHECK(isnan[1].narrow(1, 5, 3).narrow(2, 6, 3).all().item<bool>());
  CHECK_FALSE(isnan[0].any().item<bool>());
  CHECK(winograd_kernel_back(operands.x, operands.dy, false).kernel.select(1, 5).isnan().all().item<bool>());
}

TEST_CASE("float convolutions go by tiles where vectors are wide", "[vectors]") {
  CHECK(winograd_kernels<float>().pays == (row_kernels<float>().name != std::string("plain")));
}

TEST_CASE("convolutions by tiles are for NHWC pictures of many channels that tiles fill", "[vectors]") {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const bool pays = type == at::kDouble ? winograd_kernels<double>().pays : winograd_kernels<float>().pays;
    const auto asked = [&](int64_t in, int64_t height, int64_t width, int64_t out) {
      return winograd_pays(at::zeros({2, in, height, width}, type).contiguous(kNhwc), out);
    };
    CHECK(asked(32, 14, 14, 64) == pays);
    CHECK(asked(64, 7, 7, 32) == pays);
    CHECK_FALSE(asked(64, 1, 1, 32));
    CHECK_FALSE(asked(64, 1, 100, 32));
    CHECK_FALSE(asked(3, 14, 14, 32));
    CHECK_FALSE(asked(32, 14, 14, 7));
    CHECK_FALSE(winograd_pays(at::zeros({2, 32, 14, 14}, type), 32));
  }
  CHECK_FALSE(winograd_pays(at::zeros({2, 32, 14, 14}, at::kBFloat16).contiguous(kNhwc), 32));
}

TEST_CASE("a fused 3x3 convolution goes back by tiles, each gradient only where it is wanted") {
  const Operands operands(kPictureShapes[3], at::kDouble);
  const ConvOutcome exact = direct(operands);
  const bool with_bias = GENERATE(true, false);
  const size_t frozen = GENERATE(0, 1, 2, 3);  // 0: none, else the number of the picture, kernel or bias
  Conv2d conv({.in = 96, .out = 32, .kernel = 3, .padding = 1, .bias = with_bias});
  conv.fuse();
  conv.weight.set_data(operands.kernel);
  if (with_bias) conv.bias.set_data(operands.bias);
  const at::Tensor x = operands.x.clone();
  std::vector<at::Tensor> inputs = {x, conv.weight};
  if (with_bias) inputs.push_back(conv.bias);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].requires_grad_(i + 1 != frozen);
  const at::Tensor y = conv(x);
  CHECK(test::relative_error(y, with_bias ? exact[0] : exact[0] - operands.bias.view({1, -1, 1, 1})) < 1e-12);
  y.backward(operands.dy);
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFO("gradient " << i << ", frozen " << frozen);
    REQUIRE(inputs[i].grad().defined() == (i + 1 != frozen));
    if (i + 1 != frozen) CHECK(test::relative_error(inputs[i].grad(), exact[i + 1]) < 1e-12);
  }
}
