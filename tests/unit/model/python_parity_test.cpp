// Tensor by tensor compared with PyTorch, if there is a Python with torch, torchvision and safetensors.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "dtrain/model/loss.hpp"
#include "dtrain/model/weights.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;
using test::relative_error;
using test::tensor_of;

static void compare_float32(Network& network, const SafetensorsFile& reference, at::MemoryFormat format) {
  const at::NoGradGuard no_grad;
  const at::Tensor images = tensor_of(reference, "input").contiguous(format);
  network.eval();
  CHECK(relative_error(network.forward(images), tensor_of(reference, "eval32")) < 1e-5);
  CHECK(relative_error(network.forward(images), tensor_of(reference, "eval64")) < 1e-5);
  // Batch statistics amplify rounding, and the layout changes the order of sums: in training mode the tolerance is a
  // few times the distance of PyTorch's own float32 pass from float64.
  network.train();
  const at::Tensor logits = network.forward(images), exact = tensor_of(reference, "train64");
  const double rounding = relative_error(tensor_of(reference, "train32"), exact);
  CAPTURE(rounding);
  CHECK(relative_error(logits, exact) < std::max(1e-5, 4 * rounding));
  if (format == at::MemoryFormat::Contiguous) CHECK(relative_error(logits, tensor_of(reference, "train32")) < 1e-5);
}

static void compare_float64(Network& network, const NetworkKind* name, const SafetensorsFile& reference) {
  test::to_float64(network);
  const at::Tensor images = tensor_of(reference, "input").to(at::kDouble);
  network.eval();
  {
    const at::NoGradGuard no_grad;
    CHECK(relative_error(network.forward(images), tensor_of(reference, "eval64")) < 1e-10);
  }
  network.train();
  const at::Tensor logits = network.forward(images);
  CHECK(relative_error(logits, tensor_of(reference, "train64")) < 1e-10);
  const at::Tensor loss =
      Loss({}, test::reference_task(name), {}).per_sample(logits, tensor_of(reference, "target")).mean();
  CHECK(relative_error(loss, tensor_of(reference, "loss64")) < 1e-10);
  loss.backward();
  for (const auto& [key, tensor] : network.named_parameters()) {
    INFO(key);
    CHECK(relative_error(tensor.grad(), tensor_of(reference, "grad64." + key)) < 1e-10);
  }
  for (const auto& [key, tensor] : network.named_buffers()) {
    INFO(key);
    CHECK(relative_error(tensor, tensor_of(reference, "after64." + key)) < 1e-10);
  }
}

TEST_CASE("logits, loss, every gradient and every buffer are Python's") {
  if (!test::python()) return test::skip("no Python with torch, torchvision and safetensors (DTRAIN_PYTHON)");
  const auto one = GENERATE(from_range(test::reference_cases()));
  const std::string& text = one.name;
  INFO(text);
  at::set_num_threads(1);
  const test::TemporaryFolder folder;
  const std::string place = (folder.path() / text).string();
  REQUIRE(test::run_python("tests/support/reference/reference_tensors.py",
                           "--model " + text + " --out '" + folder.path().string() + "'"));
  const auto reference = SafetensorsFile::read(place + ".reference.safetensors");

  const NetworkKind* name = one.options.kind;
  const auto network = name->make(one.options, test::reference_shape(one.options));
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    load_weights(*network, place + ".weights.safetensors");
    compare_float32(*network, reference, format);
  }
  load_weights(*network, place + ".weights.safetensors");
  compare_float64(*network, name, reference);
}
