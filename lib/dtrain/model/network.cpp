#include "dtrain/model/network.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/model/initial_weights.hpp"
#include "dtrain/model/networks.hpp"

namespace dtrain {

static std::string size_text(const NetworkShape& shape) {
  return std::to_string(shape.height) + " x " + std::to_string(shape.width);
}

static void require_side(const NetworkShape& shape, int64_t least, const std::string& network) {
  if (shape.height >= least && shape.width >= least) return;
  throw ConfigError(network + " needs pictures of at least " + std::to_string(least) + " x " + std::to_string(least) +
                    " pixels, and data.image.size asks for " + size_text(shape) + "; ask for larger ones");
}

static void require_multiple(const NetworkShape& shape, int64_t factor) {
  if (shape.height > 0 && shape.width > 0 && shape.height % factor == 0 && shape.width % factor == 0) return;
  throw ConfigError("unet halves the picture four times, so that height and width must be multiples of " +
                    std::to_string(factor) + ", and data.image.size asks for " + size_text(shape));
}

static std::shared_ptr<Network> make_empty(const ModelOptions& options, const NetworkShape& shape,
                                           InitialWeights& how) {
  switch (options.name) {
    case NetworkName::densenet121:
      require_side(shape, 29, "densenet121");  // below that the last pooling leaves nothing
      how = {.kernels = KernelStart::normal_fan_in, .zero_dense_bias = true};
      return make_densenet121(shape);
    case NetworkName::resnet50:
      require_side(shape, 1, "resnet50");
      how = {.kernels = KernelStart::normal_fan_out, .zero_dense_bias = false};
      return make_resnet50(shape);
    case NetworkName::unet:
      require_multiple(shape, 16);
      return make_unet(shape, options.base_width);
    case NetworkName::small_cnn:
      require_side(shape, 16, "small_cnn");
      return make_small_cnn(shape, options.dropout);
  }
  throw InternalError("make_network: no such network");
}

std::shared_ptr<Network> make_network(const ModelOptions& options, const NetworkShape& shape, uint64_t seed) {
  check(shape.channels >= 1 && shape.outputs >= 1, "a network has at least one input channel and one output");
  check(options.base_width >= 1, "model.base_width is at least 1");
  check(options.dropout >= 0 && options.dropout < 1, "model.dropout lies in [0, 1)");
  InitialWeights how;
  auto network = make_empty(options, shape, how);
  draw_initial_weights(*network, how, seed);
  return network;
}

void Network::set_random_key(uint64_t, int64_t, int64_t) {}

at::MemoryFormat memory_format_for(NetworkName name, at::DeviceType device) {
  if (device != at::kCPU && device != at::kCUDA) return at::MemoryFormat::Contiguous;
  // Measured with one thread on an AVX-512 core, LibTorch 2.11, against NCHW.
  switch (name) {
    case NetworkName::densenet121:  // 1.25 times as fast
    case NetworkName::resnet50:     // 1.3
    case NetworkName::unet:         // 1.4
    case NetworkName::small_cnn:    // 1.85
      return at::MemoryFormat::ChannelsLast;
  }
  throw InternalError("memory_format_for: no such network");
}

std::vector<std::string> kernel_names(const Network& network) {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : network.named_parameters())
    if (parameter.tensor.dim() == 4) names.push_back(parameter.name);
  return names;
}

}  // namespace dtrain
