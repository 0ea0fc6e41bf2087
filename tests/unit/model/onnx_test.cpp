// ONNX files, taken apart and computed again here by the definitions of the format, without the code that wrote them.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool2d.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/onnx_file.hpp"
#include "support/catch.hpp"
#include "unit/model/test_tools.hpp"

using namespace dtrain;

namespace {

/// A protobuf message, field by field; a number, or the bytes of a text, a message or a float.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;
};

uint64_t take_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(!rest.empty());
    const auto byte = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields_of(std::string_view rest) {
  std::vector<Field> fields;
  while (!rest.empty()) {
    const uint64_t tag = take_varint(rest);
    Field field{tag >> 3, 0, {}};
    if ((tag & 7) == 0) {
      field.value = take_varint(rest);
    } else {
      REQUIRE(((tag & 7) == 2 || (tag & 7) == 5));
      const uint64_t size = (tag & 7) == 5 ? 4 : take_varint(rest);
      REQUIRE(size <= rest.size());
      field.bytes = rest.substr(0, size);
      rest.remove_prefix(size);
    }
    fields.push_back(field);
  }
  return fields;
}

std::vector<Field> all(const std::vector<Field>& fields, uint64_t number) {
  std::vector<Field> found;
  for (const Field& field : fields)
    if (field.number == number) found.push_back(field);
  return found;
}

Field only(const std::vector<Field>& fields, uint64_t number) {
  const auto found = all(fields, number);
  INFO("field " << number);
  REQUIRE(found.size() == 1);
  return found.front();
}

at::Tensor tensor_in(const std::vector<Field>& proto) {
  const bool whole = only(proto, 2).value == 7;  // INT64
  CHECK((whole || only(proto, 2).value == 1));   // FLOAT
  std::vector<int64_t> shape;
  for (const Field& size : all(proto, 1)) shape.push_back(static_cast<int64_t>(size.value));
  at::Tensor tensor = at::empty(shape, whole ? at::kLong : at::kFloat);
  const std::string_view raw = only(proto, 9).bytes;
  REQUIRE(raw.size() == tensor.nbytes());
  std::memcpy(tensor.data_ptr(), raw.data(), raw.size());
  return tensor;
}

struct Attributes {
  std::map<std::string, std::vector<int64_t>, std::less<>> whole;
  std::map<std::string, float, std::less<>> real;

  explicit Attributes(const std::vector<Field>& node) {
    for (const Field& field : all(node, 5)) {
      const auto proto = fields_of(field.bytes);
      const std::string name(only(proto, 1).bytes);
      switch (only(proto, 20).value) {
        case 1:
          std::memcpy(&real[name], only(proto, 2).bytes.data(), 4);
          break;
        case 2:
          whole[name] = {static_cast<int64_t>(only(proto, 3).value)};
          break;
        case 7:
          for (const Field& one : all(proto, 8)) whole[name].push_back(static_cast<int64_t>(one.value));
          break;
        default:
          FAIL("an attribute of another kind");
      }
    }
  }
  std::vector<int64_t> sides(const std::string& name) const {
    const auto& values = whole.at(name);
    if (name != "pads") return values;
    REQUIRE(values.size() == 4);
    CHECK((values[0] == values[2] && values[1] == values[3]));
    return {values[0], values[1]};
  }
};

at::Tensor computed(const std::string& op, const std::vector<at::Tensor>& in, const Attributes& a) {
  const auto optional = [&](size_t i) { return i < in.size() ? std::optional(in[i]) : std::nullopt; };
  if (op == "Conv") return at::conv2d(in[0], in[1], optional(2), a.sides("strides"), a.sides("pads"));
  if (op == "ConvTranspose")
    return at::conv_transpose2d(in[0], in[1], optional(2), a.sides("strides"), a.sides("pads"));
  if (op == "BatchNormalization") {
    const auto wide = [](const at::Tensor& t) { return t.view({-1, 1, 1}); };
    return (in[0] - wide(in[3])) / (wide(in[4]) + a.real.at("epsilon")).sqrt() * wide(in[1]) + wide(in[2]);
  }
  if (op == "Relu") return in[0].clamp_min(0);
  if (op == "MaxPool") return at::max_pool2d(in[0], a.sides("kernel_shape"), a.sides("strides"), a.sides("pads"));
  if (op == "AveragePool")
    return at::avg_pool2d(in[0], a.sides("kernel_shape"), a.sides("strides"), a.sides("pads"), false,
                          a.whole.at("count_include_pad")[0] == 1);
  if (op == "Resize") {  // its defaults: nearest, half_pixel, round_prefer_floor
    REQUIRE(a.whole.empty());
    at::Tensor out = in[0];
    for (int64_t d = 0; d < 4; ++d) {
      const float scale = in[2][d].item<float>();
      const auto size = static_cast<int64_t>(scale * static_cast<float>(in[0].size(d)));
      const at::Tensor place = (at::arange(size, at::kDouble) + 0.5) / scale - 0.5;
      out = out.index_select(d, (place - 0.5).ceil().clamp(0, in[0].size(d) - 1).to(at::kLong));
    }
    return out;
  }
  if (op == "GlobalAveragePool") return in[0].mean({2, 3}, true);
  if (op == "Concat") return at::cat(in, a.whole.at("axis")[0]);
  if (op == "Add") return in[0] + in[1];
  if (op == "Flatten") return in[0].flatten(a.whole.at("axis")[0]);
  if (op == "Gemm") return at::matmul(in[0], a.whole.at("transB")[0] == 1 ? in[1].t() : in[1]) + in[2];
  if (op == "Sigmoid") return 1 / (1 + (-in[0]).exp());
  if (op == "Softmax") return in[0].softmax(a.whole.at("axis")[0]);
  if (op == "Slice") {
    const auto number = [&](size_t i) { return in[i].item<int64_t>(); };
    return in[0].slice(number(3), number(1), number(2));
  }
  FAIL("an operator that no network has: " << op);
  return {};
}

/// Computes the graph as ONNX defines it.
at::Tensor scores_of(const std::string& file, const at::Tensor& pictures) {
  const auto graph = fields_of(only(fields_of(file), 7).bytes);
  std::map<std::string, at::Tensor, std::less<>> values{{"pictures", pictures}, {"", {}}};
  for (const Field& field : all(graph, 5)) {
    const auto proto = fields_of(field.bytes);
    REQUIRE(values.emplace(only(proto, 8).bytes, tensor_in(proto)).second);
  }
  for (const Field& field : all(graph, 1)) {
    const auto node = fields_of(field.bytes);
    std::vector<at::Tensor> inputs;
    for (const Field& name : all(node, 1)) {
      INFO(name.bytes);
      REQUIRE(values.contains(name.bytes));
      inputs.push_back(values.find(name.bytes)->second);
    }
    const at::Tensor result = computed(std::string(only(node, 4).bytes), inputs, Attributes(node));
    REQUIRE(values.emplace(only(node, 2).bytes, result).second);
  }
  return values.at("scores");
}

/// Statistics and factors that a training would have left, so that no operator does nothing.
void unsettle(Network& network) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (const auto& tensors : {network.named_parameters(), network.named_buffers()})
    for (const NamedTensor& one : tensors) {
      if (one.tensor.dim() != 1) continue;
      const at::Tensor drawn = test::keyed_normal(one.tensor.sizes(), ++seed) * 0.2;
      at::Tensor(one.tensor)
          .copy_(one.name.ends_with("bias") || one.name.ends_with("mean") ? drawn : drawn.abs() + 0.6);
    }
  network.eval();
}

std::string file_of(const Network& network, const NetworkShape& shape, Task task, const LossOptions& loss = {}) {
  ForwardGraph graph(network);
  Loss(loss, task, {}).probabilities(network.trace(graph.input("pictures")), shape.outputs);
  graph.finish("scores");
  return onnx_file({.graph = graph,
                    .input = {"pictures", {shape.channels, shape.height, shape.width}},
                    .output = {"scores", network.layers(shape).back().output},
                    .name = "net",
                    .version = "1.2.3",
                    .metadata = {{"classes", "[\"a\"]"}, {"task", name_of(task)}}});
}

}  // namespace

TEST_CASE("the graph of every network computes its probabilities", "[long]") {
  const auto one = GENERATE(from_range(test::reference_cases()));
  const NetworkKind* kind = one.options.kind;
  INFO(one.name);
  const at::NoGradGuard no_grad;
  const NetworkShape shape = test::reference_shape(one.options);
  const auto network = make_network(one.options, shape, 1);
  unsettle(*network);
  const at::Tensor pictures = test::keyed_normal({3, shape.channels, shape.height, shape.width}, 5);
  const at::Tensor logits = network->forward(pictures);
  const double rounding = 2e-6 * std::max(1.0, logits.abs().max().item<double>());
  for (const Task task : {Task::multilabel, Task::multiclass, Task::segmentation}) {
    if (!kind->serves(task)) continue;
    const at::Tensor expected = Loss({}, task, {}).probabilities(logits);
    const at::Tensor found = scores_of(file_of(*network, shape, task), pictures);
    REQUIRE(found.sizes() == expected.sizes());
    CHECK((found - expected).abs().max().item<double>() < rounding);
    CHECK(expected.std().item<double>() > 1e-4);   // it tells pictures or classes apart
    if (kind != network_kind("small_cnn")) break;  // what follows the logits is the same for every network
  }
}

TEST_CASE("classes that exclude each other leave background out of the graph's probabilities") {
  const at::NoGradGuard no_grad;
  const auto* kind = network_kind("unet");
  NetworkShape shape = test::reference_shape(kind);
  shape.outputs = 3;
  ModelOptions options;
  options.kind = kind;
  const auto network = make_network(options, shape, 3);
  unsettle(*network);
  LossOptions exclusive;
  exclusive.kind = loss_kind("ce_dice");
  const at::Tensor pictures = test::keyed_normal({2, shape.channels, shape.height, shape.width}, 5);
  const at::Tensor expected = network->forward(pictures).softmax(1).slice(1, 1, 3);
  const at::Tensor found = scores_of(file_of(*network, shape, Task::segmentation, exclusive), pictures);
  REQUIRE(found.sizes() == expected.sizes());
  CHECK((found - expected).abs().max().item<double>() < 2e-6);
}

TEST_CASE("an ONNX file says what goes in and comes out, and for which versions it is") {
  const auto* kind = network_kind("unet");
  const NetworkShape shape = test::reference_shape(kind);
  const auto network = test::reference_network(kind);
  const std::string file = file_of(*network, shape, Task::segmentation);
  CHECK(file == file_of(*network, shape, Task::segmentation));
  const auto model = fields_of(file);
  CHECK(only(model, 1).value == 8);
  CHECK(only(model, 2).bytes == "dtrain");
  CHECK(only(model, 3).bytes == "1.2.3");
  const auto operators = fields_of(only(model, 8).bytes);
  CHECK(all(operators, 1).empty());  // ONNX's own
  CHECK(only(operators, 2).value == 17);
  std::map<std::string, std::string> metadata;
  for (const Field& field : all(model, 14)) {
    const auto entry = fields_of(field.bytes);
    metadata[std::string(only(entry, 1).bytes)] = only(entry, 2).bytes;
  }
  CHECK(metadata == std::map<std::string, std::string>{{"classes", "[\"a\"]"}, {"task", "segmentation"}});
  const auto graph = fields_of(only(model, 7).bytes);
  CHECK(only(graph, 2).bytes == "net");
  for (const auto& [number, name] : {std::pair{11U, "pictures"}, std::pair{12U, "scores"}}) {
    const auto value = fields_of(only(graph, number).bytes);
    CHECK(only(value, 1).bytes == name);
    const auto tensor = fields_of(only(fields_of(only(value, 2).bytes), 1).bytes);
    CHECK(only(tensor, 1).value == 1);
    const auto sizes = all(fields_of(only(tensor, 2).bytes), 1);
    REQUIRE(sizes.size() == 4);
    CHECK(only(fields_of(sizes[0].bytes), 2).bytes == "N");
    const uint64_t expected[] = {1, 64, 64};
    for (size_t i = 0; i < 3; ++i) CHECK(only(fields_of(sizes[i + 1].bytes), 1).value == expected[i]);
  }
  std::vector<std::string> names;
  for (const Field& field : all(graph, 5)) names.emplace_back(only(fields_of(field.bytes), 8).bytes);
  for (const NamedTensor& parameter : network->named_parameters())
    CHECK(std::count(names.begin(), names.end(), parameter.name) == 1);
}

TEST_CASE("weights that are not finite, or too many for a file, are refused") {
  const auto* kind = network_kind("small_cnn");
  const NetworkShape shape = test::reference_shape(kind);
  const auto network = test::reference_network(kind);
  {
    const at::NoGradGuard no_grad;
    network->named_parameters().back().tensor.fill_(std::nan(""));
  }
  CHECK_THROWS_WITH(file_of(*network, shape, Task::multiclass), Catch::Contains("NaN or Inf in 18.bias"));
  CHECK_NOTHROW(require_onnx_size(std::numeric_limits<int32_t>::max()));
  CHECK_THROWS_AS(require_onnx_size(int64_t{1} << 31), ConfigError);
}
