#include "unit/model/test_tools.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sin.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "dtrain/base/random.hpp"
#include "support/catch.hpp"
#include "support/source_folder.hpp"

namespace dtrain::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "dtrain-model-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ModelOptions options_of(const NetworkKind* kind, const NetworkKind* encoder) {
  ModelOptions options;
  options.kind = kind;
  options.encoder = encoder;
  options.dropout = 0;
  return options;
}

std::vector<const NetworkKind*> network_of_each_block() {
  std::vector<const NetworkKind*> kinds;
  for (const char* name : {"densenet121", "resnet18", "resnet50", "unet", "small_cnn"})
    kinds.push_back(network_kind(name));
  return kinds;
}

std::vector<ReferenceCase> reference_cases() {
  std::vector<ReferenceCase> cases;
  for (const NetworkKind* kind : networks()) cases.push_back({kind->name, options_of(kind)});
  const NetworkKind* unet = network_kind("unet");
  cases.push_back({"unet_levels2", options_of(unet)});
  cases.back().options.levels = 2;
  for (const std::string encoder : {"resnet18", "resnet50"})
    cases.push_back({"unet_" + encoder, options_of(unet, network_kind(encoder))});
  return cases;
}

NetworkShape reference_shape(const ModelOptions& options) {
  const NetworkKind* kind = options.kind;
  const int64_t outputs = kind->per_pixel ? 1 : kind == network_kind("small_cnn") ? 2 : 14;
  return {.channels = image_channels_of(options), .height = 64, .width = 64, .outputs = outputs};
}

NetworkShape reference_shape(const NetworkKind* name) { return reference_shape(options_of(name)); }

std::shared_ptr<Network> reference_network(const NetworkKind* name) {
  return drawn_once(options_of(name), reference_shape(name), 1);
}

Task reference_task(const NetworkKind* name) {
  if (name == network_kind("small_cnn")) return Task::multiclass;
  return name->per_pixel ? Task::segmentation : Task::multilabel;
}

at::Tensor tensor_of(const SafetensorsFile& file, const std::string& name) {
  static const std::map<std::string, at::ScalarType> kTypes{
      {"F32", at::kFloat}, {"F64", at::kDouble}, {"I64", at::kLong}};
  const TensorEntry* entry = file.find(name);
  INFO("tensor " << name);
  REQUIRE(entry != nullptr);
  at::Tensor tensor = at::empty(entry->shape, at::TensorOptions(kTypes.at(entry->dtype)));
  const auto bytes = file.bytes(*entry);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

void to_float64(Module& module) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& parameter : module.named_parameters()) parameter.tensor.set_data(parameter.tensor.to(at::kDouble));
  for (NamedTensor& buffer : module.named_buffers())
    if (buffer.tensor.is_floating_point()) buffer.tensor.set_data(buffer.tensor.to(at::kDouble));
}

std::shared_ptr<Network> make(const NetworkKind* kind, const NetworkShape& shape, uint64_t seed) {
  ModelOptions options;
  options.kind = kind;
  return make_network(options, shape, seed);
}

std::shared_ptr<Network> drawn_once(const ModelOptions& options, const NetworkShape& shape, uint64_t seed) {
  static std::map<std::string, at::Tensor> drawn;
  const at::NoGradGuard no_grad;
  const std::string start =
      (options.encoder != nullptr ? options.encoder : options.kind)->name + " " + std::to_string(seed) + " ";
  const auto key_of = [&](const NamedTensor& parameter) {
    return start + parameter.name + " " + c10::str(parameter.tensor.sizes());
  };
  auto network = make_unfilled_network(options, shape);
  const auto parameters = network->named_parameters();
  if (std::ranges::all_of(parameters, [&](const NamedTensor& one) { return drawn.contains(key_of(one)); })) {
    for (const NamedTensor& parameter : parameters) at::Tensor(parameter.tensor).copy_(drawn.at(key_of(parameter)));
    return network;
  }
  network = make_network(options, shape, seed);
  for (const NamedTensor& parameter : network->named_parameters())
    drawn.insert_or_assign(key_of(parameter), parameter.tensor.detach().clone());
  return network;
}

std::shared_ptr<Network> filled(const ModelOptions& options, const NetworkShape& shape) {
  const at::NoGradGuard no_grad;
  auto network = options.kind->make(options, shape);
  for (const NamedTensor& parameter : network->named_parameters())  // with uniform_() GCC 12 warns wrongly at -Og
    at::Tensor(parameter.tensor).copy_(at::rand(parameter.tensor.sizes()).sub_(0.5).mul_(0.1));
  return network;
}

NetworkShape square(const NetworkKind& kind, int64_t side) {
  return {.channels = kind.image_channels, .height = side, .width = side, .outputs = 3};
}

Loss loss_named(const std::string& name, const std::vector<double>& weights) {
  LossOptions options;
  options.kind = loss_kind(name);
  return {options, Task::segmentation, weights};
}

at::Tensor wave(at::IntArrayRef shape, double step, at::ScalarType type) {
  return at::sin(at::arange(c10::multiply_integers(shape), at::kDouble) * step).view(shape).to(type);
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const at::Tensor wide = b.detach().to(at::kDouble);
  return ((a.detach().to(at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}

double difference(const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b) ? 0 : relative_error(a, b); }

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor left = a.detach().contiguous(), right = b.detach().contiguous();
  return std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

at::Tensor keyed_normal(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  KeyedRandom random(seed, Purpose::synthetic_data);
  float* place = tensor.data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) place[i] = static_cast<float>(random.normal());
  return tensor;
}

static const std::string kReferenceScript = "tests/support/reference/reference_tensors.py";

static bool runs(const std::string& interpreter, const std::string& script, const std::string& arguments,
                 const std::string& log) {
  const std::string command = "timeout 300 '" + interpreter + "' -B '" + source_folder() + "/" + script + "' " +
                              arguments + " >'" + log + "' 2>&1";
  return std::system(command.c_str()) == 0;
}

const std::optional<std::string>& python() {
  static const std::optional<std::string> found = []() -> std::optional<std::string> {
    const char* chosen = std::getenv("DTRAIN_PYTHON");
    const std::string interpreter = chosen != nullptr ? chosen : "python3";
    if (!runs(interpreter, kReferenceScript, "--check", "/dev/null")) return std::nullopt;
    return interpreter;
  }();
  return found;
}

bool run_python(const std::string& script, const std::string& arguments, const std::string& log) {
  return python().has_value() && runs(*python(), script, arguments, log);
}

}  // namespace dtrain::test
