// Compares the networks with numbers that PyTorch computed for weights made by a formula; needs no Python.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "dtrain/base/hash.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

namespace {

struct ReferenceNumbers {
  std::string model;
  int64_t outputs, tensors, parameters;
  std::string names_sha256;
  double loss, eval, train, gradient_norm, gradient, statistics, next_loss;
};

const std::vector<ReferenceNumbers> kNumbers{
#include "unit/model/reference_numbers.inc"
};

const ReferenceNumbers& numbers_of(const test::ReferenceCase& name) {
  const auto found = std::ranges::find(kNumbers, name.name, &ReferenceNumbers::model);
  INFO("for " << name.name << ": reference_tensors.py --numbers");
  REQUIRE(found != kNumbers.end());
  return *found;
}

// The same as formula() in tests/support/reference/reference_tensors.py.
at::Tensor formula(const std::string& key, at::IntArrayRef shape) {
  uint64_t state = 0xCBF29CE484222325ULL;
  for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  at::Tensor tensor = at::empty(shape, at::kDouble);
  double* place = tensor.data_ptr<double>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    uint64_t v = state + static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ULL;
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ULL;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBULL;
    v ^= v >> 31;
    place[i] = static_cast<double>(v >> 11) * 0x1.0p-52 - 1.0;
  }
  return tensor;
}

std::vector<NamedTensor> float_tensors_of(const Network& network) {
  auto all = network.named_parameters();
  for (NamedTensor& buffer : network.named_buffers())
    if (buffer.tensor.is_floating_point()) all.push_back(buffer);
  return all;
}

void fill_by_formula(const Network& network) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : float_tensors_of(network)) {
    at::Tensor value = formula(name, tensor.sizes());
    if (tensor.dim() > 1) {
      value = value * std::sqrt(6.0 / static_cast<double>(tensor.numel() / tensor.size(0)));
    } else if (name.ends_with("running_var")) {
      value = 1.0 + 0.5 * value;
    } else if (name.ends_with(".weight")) {
      value = 1.0 + 0.2 * value;
    } else {
      value = 0.1 * value;
    }
    tensor.copy_(value);
  }
}

double projection(const std::string& name, const at::Tensor& tensor) {
  return (tensor.detach() * formula("probe " + name, tensor.sizes())).sum().item<double>();
}

at::Tensor targets_for(const NetworkKind* name, at::IntArrayRef logits_shape) {
  if (name == network_kind("small_cnn")) return at::arange(2, at::kLong);
  return (formula("target", logits_shape) > 0).to(at::kDouble);
}

}  // namespace

TEST_CASE("names, shapes and number of the tensors are torchvision's") {
  const auto one = GENERATE(from_range(test::reference_cases()));
  const ReferenceNumbers& expected = numbers_of(one);
  INFO(expected.model);
  NetworkShape shape = test::reference_shape(one.options);
  shape.outputs = expected.outputs;
  const auto network = one.options.kind->make(one.options, shape);

  int64_t parameters = 0;
  std::vector<std::string> lines;
  const auto add = [&](const NamedTensor& named) {
    std::string line = named.name + " ";
    for (int64_t i = 0; i < named.tensor.dim(); ++i) line += (i > 0 ? "," : "") + std::to_string(named.tensor.size(i));
    lines.push_back(line + "\n");
  };
  for (const NamedTensor& parameter : network->named_parameters()) {
    parameters += parameter.tensor.numel();
    add(parameter);
  }
  for (const NamedTensor& buffer : network->named_buffers()) add(buffer);
  std::ranges::sort(lines);
  std::string joined;
  for (const std::string& line : lines) joined += line;
  CHECK(parameters == expected.parameters);
  CHECK(std::ssize(lines) == expected.tensors);
  CHECK(sha256_hex(joined) == expected.names_sha256);
}

TEST_CASE("forward, loss, gradient, running statistics and a step are PyTorch's in float64", "[long]") {
  constexpr double kClose = 1e-10, kRate = 1e-6;
  const auto one = GENERATE(from_range(test::reference_cases()));
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const ReferenceNumbers& expected = numbers_of(one);
  constexpr int64_t kLarge = 40'000'000;  // more of the layers that smaller ones have: in one format
  if (expected.parameters > kLarge && format == at::MemoryFormat::Contiguous) return;
  INFO(expected.model << (format == at::MemoryFormat::ChannelsLast ? ", channels-last" : ", NCHW"));
  const NetworkKind* name = one.options.kind;
  const NetworkShape shape = test::reference_shape(one.options);
  const auto network = name->make(one.options, shape);
  test::to_float64(*network);
  fill_by_formula(*network);
  const at::Tensor images = formula("input", {2, shape.channels, shape.height, shape.width}).contiguous(format);

  network->eval();
  {
    const at::NoGradGuard no_grad;
    CHECK(projection("eval", network->forward(images)) == Approx(expected.eval).epsilon(kClose));
  }
  network->train();
  const at::Tensor logits = network->forward(images);
  CHECK(projection("train", logits) == Approx(expected.train).epsilon(kClose));
  const Loss measure({}, test::reference_task(name), {});
  const at::Tensor targets = targets_for(name, logits.sizes());
  const at::Tensor loss = measure.per_sample(logits, targets).mean();
  CHECK(loss.item<double>() == Approx(expected.loss).epsilon(kClose));
  loss.backward();

  double gradient = 0, squares = 0, statistics = 0;
  for (const auto& [key, tensor] : network->named_parameters()) {
    gradient += projection(key, tensor.grad());
    squares += tensor.grad().square().sum().item<double>();
  }
  for (const auto& [key, tensor] : network->named_buffers()) {
    if (tensor.is_floating_point()) statistics += projection(key, tensor);
    if (key.ends_with("num_batches_tracked")) CHECK((tensor.scalar_type() == at::kLong && tensor.item<int64_t>() == 1));
  }
  CHECK(std::sqrt(squares) == Approx(expected.gradient_norm).epsilon(kClose));
  CHECK(std::abs(gradient - expected.gradient) <= kClose * expected.gradient_norm);
  CHECK(statistics == Approx(expected.statistics).epsilon(kClose));

  const at::NoGradGuard no_grad;
  for (const auto& [key, tensor] : network->named_parameters()) at::Tensor(tensor).sub_(tensor.grad(), kRate);
  CHECK(measure.per_sample(network->forward(images), targets).mean().item<double>() ==
        Approx(expected.next_loss).epsilon(kClose));
}
