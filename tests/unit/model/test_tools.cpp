#include "unit/model/test_tools.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <unistd.h>

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

NetworkShape reference_shape(const NetworkKind* name) {
  if (name->per_pixel) return {.channels = 1, .height = 64, .width = 64, .outputs = 1};
  return {.channels = 3, .height = 64, .width = 64, .outputs = name == network_kind("small_cnn") ? 2 : 14};
}

std::shared_ptr<Network> reference_network(const NetworkKind* name) {
  ModelOptions options;
  options.kind = name;
  options.dropout = 0;
  return make_network(options, reference_shape(name), 1);
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

void to_float64(Network& network) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& parameter : network.named_parameters()) parameter.tensor.set_data(parameter.tensor.to(at::kDouble));
  for (NamedTensor& buffer : network.named_buffers())
    if (buffer.tensor.is_floating_point()) buffer.tensor.set_data(buffer.tensor.to(at::kDouble));
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const at::Tensor wide = b.detach().to(at::kDouble);
  return ((a.detach().to(at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}

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
