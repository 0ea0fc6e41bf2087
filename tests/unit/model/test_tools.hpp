#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"

namespace dtrain::test {

inline constexpr auto kNhwc = at::MemoryFormat::ChannelsLast;

/// A new folder in the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Without dropout.
ModelOptions options_of(const NetworkKind* kind, const NetworkKind* encoder = nullptr);

std::shared_ptr<Network> make(const NetworkKind* kind, const NetworkShape& shape, uint64_t seed = 1);

/// As make_network(), but each of the weights is drawn once in this process: for cases that compare a network with
/// itself.
std::shared_ptr<Network> drawn_once(const ModelOptions& options, const NetworkShape& shape, uint64_t seed);

/// With weights that are made sooner than make() draws them: small, of any value.
std::shared_ptr<Network> filled(const ModelOptions& options, const NetworkShape& shape);

/// What make() gives while LibTorch may use so many threads.
template <class Make>
auto on_threads(int threads, const Make& make) {
  struct Before {
    int threads = at::get_num_threads();
    ~Before() { at::set_num_threads(threads); }
  } const before;
  at::set_num_threads(threads);
  return make();
}

/// As many channels as its pictures have, and three outputs.
NetworkShape square(const NetworkKind& kind, int64_t side);

/// Of segmentation.
Loss loss_named(const std::string& name, const std::vector<double>& weights = {});

/// sin(0), sin(step), …
at::Tensor wave(at::IntArrayRef shape, double step, at::ScalarType type);

/// One network of each kind of block; the others have more of them.
std::vector<const NetworkKind*> network_of_each_block();

/// A network under the name that the references have for it.
struct ReferenceCase {
  std::string name;
  ModelOptions options;
};
/// Every network, and a unet of two levels and with encoders.
std::vector<ReferenceCase> reference_cases();

/// The network at 64 x 64 with the channels and outputs of the references, without dropout.
NetworkShape reference_shape(const ModelOptions& options);
NetworkShape reference_shape(const NetworkKind* name);
std::shared_ptr<Network> reference_network(const NetworkKind* name);
/// What the references train it for.
Task reference_task(const NetworkKind* name);

/// Parameters and floating-point buffers become float64; BatchNorm's counters stay as they are.
void to_float64(Module& module);

/// A tensor of the file, in its own dtype; fails the test if absent.
at::Tensor tensor_of(const SafetensorsFile& file, const std::string& name);

/// Largest |a - b| ÷ largest |b|, in float64; NaN, which fails a test, if both are 0.
double relative_error(const at::Tensor& a, const at::Tensor& b);

/// The same, but 0 if both are 0.
double difference(const at::Tensor& a, const at::Tensor& b);

/// Same dtype, shape and bits.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// Normal numbers that depend on shape and seed alone.
at::Tensor keyed_normal(at::IntArrayRef shape, uint64_t seed);

/// A Python that can import torch, torchvision and safetensors: $DTRAIN_PYTHON, else python3. Looked for once.
const std::optional<std::string>& python();

/// Runs `python script arguments` (script relative to the source tree); false unless it ends with 0 within 5 minutes.
/// What it printed is stored in `log` if given.
bool run_python(const std::string& script, const std::string& arguments, const std::string& log = "/dev/null");

}  // namespace dtrain::test
