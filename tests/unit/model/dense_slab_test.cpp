// A fused block against LibTorch's operators one by one.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <string>
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

std::shared_ptr<Network> densenet(bool fused, at::ScalarType type) {
  ModelOptions options;
  options.kind = network_kind("densenet121");
  options.fused = fused;
  auto network = make_network(options, {.channels = 1, .height = 64, .width = 64, .outputs = 3}, 5);
  const at::NoGradGuard no_grad;
  // Away from 1 and 0, so that masks, scales and shifts matter.
  for (const auto& [name, tensor] : network->named_parameters())
    if (tensor.dim() == 1) at::Tensor(tensor).add_(0.3 * at::sin(at::arange(tensor.numel()).to(tensor.dtype()) * 1.7));
  if (type == at::kDouble) test::to_float64(*network);
  for (const auto& [name, tensor] : network->named_parameters())
    if (tensor.dim() == 4) at::Tensor(tensor).set_data(tensor.contiguous(at::MemoryFormat::ChannelsLast));
  return network;
}

at::Tensor pictures(at::IntArrayRef shape, at::ScalarType type) {
  const at::Tensor values = at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * 0.37).view(shape);
  return values.to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
}

Outcome train_once(bool fused, at::ScalarType type, at::IntArrayRef shape) {
  const auto network = densenet(fused, type);
  const at::Tensor images = pictures(shape, type);
  const at::Tensor logits = network->forward(images);
  (logits * at::cos(at::arange(logits.numel()).view(logits.sizes()).to(type))).sum().backward();
  Outcome outcome;
  outcome.add("logits", logits);
  outcome.add("picture", images.grad());
  for (const auto& [name, tensor] : network->named_parameters()) outcome.add(name, tensor.grad());
  for (const auto& [name, tensor] : network->named_buffers()) outcome.add(name, tensor);
  return outcome;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / (b.abs().max() + 1e-30)).item<double>();
}

}  // namespace

TEST_CASE("a fused DenseNet computes what the operators compute, in float64 to 1e-10") {
  const auto shape = GENERATE(std::vector<int64_t>{2, 1, 64, 64}, std::vector<int64_t>{1, 1, 87, 70},
                              std::vector<int64_t>{3, 1, 101, 64});
  const Outcome plain = train_once(false, at::kDouble, shape), fused = train_once(true, at::kDouble, shape);
  REQUIRE(plain.tensors.size() == fused.tensors.size());
  for (size_t i = 0; i < plain.tensors.size(); ++i) {
    INFO(plain.tensors[i].name);
    CHECK(difference(fused.tensors[i].tensor, plain.tensors[i].tensor) < 1e-10);
  }
}

TEST_CASE("in evaluation mode too") {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const auto plain = densenet(false, type), fused = densenet(true, type);
    plain->eval();
    fused->eval();
    const at::NoGradGuard no_grad;
    const at::Tensor images = pictures({2, 1, 87, 70}, type).detach();
    CHECK(difference(fused->forward(images), plain->forward(images)) < (type == at::kDouble ? 1e-12 : 1e-4));
  }
}

TEST_CASE("in float32 it is as near to float64 as the operators are") {
  const std::vector<int64_t> shape = {4, 1, 96, 96};
  const Outcome exact = train_once(false, at::kDouble, shape), plain = train_once(false, at::kFloat, shape),
                fused = train_once(true, at::kFloat, shape);
  double plain_worst = 0, fused_worst = 0;
  for (size_t i = 0; i < exact.tensors.size(); ++i) {
    plain_worst = std::max(plain_worst, difference(plain.tensors[i].tensor, exact.tensors[i].tensor));
    fused_worst = std::max(fused_worst, difference(fused.tensors[i].tensor, exact.tensors[i].tensor));
  }
  INFO("operators " << plain_worst << ", fused " << fused_worst << " by " << row_kernels<float>().name);
  CHECK(fused_worst < std::max(1e-4, 2 * plain_worst));
}

TEST_CASE("the bits of a fused pass do not depend on the number of threads") {
  const std::vector<int64_t> shape = {3, 1, 64, 64};
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Outcome one = train_once(true, at::kFloat, shape);
  at::set_num_threads(2);
  const Outcome two = train_once(true, at::kFloat, shape);
  at::set_num_threads(before);
  // Convolutions are LibTorch's, whose own sums may be split by threads: what the slab adds is the logits' path.
  CHECK(at::equal(one.tensors.front().tensor, two.tensors.front().tensor));
}
