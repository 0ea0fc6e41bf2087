#include "dtrain/model/network.hpp"

#include "dtrain/base/error.hpp"
#include "dtrain/model/initial_weights.hpp"

namespace dtrain {

std::shared_ptr<Network> make_unfilled_network(const ModelOptions& options, const NetworkShape& shape) {
  check(shape.channels >= 1 && shape.outputs >= 1, "a network has at least one input channel and one output");
  const std::string wrong = wrong_size(options, shape.height, shape.width, "data.image.size");
  if (!wrong.empty()) throw ConfigError(wrong);
  auto network = options.kind->make(options, shape);
  network->fuse(options.fused);
  return network;
}

std::shared_ptr<Network> make_network(const ModelOptions& options, const NetworkShape& shape, uint64_t seed) {
  auto network = make_unfilled_network(options, shape);
  draw_initial_weights(*network, (options.encoder != nullptr ? options.encoder : options.kind)->start, seed);
  return network;
}

Network::PooledPass Network::forward_pooled(const at::Tensor&) {
  throw InternalError("this network does not end in global average pooling");
}

void Network::set_random_key(uint64_t, int64_t, int64_t) {}

at::MemoryFormat memory_format_for(const NetworkKind& kind, at::DeviceType device) {
  const PixelLayout layout = device == at::kCPU ? kind.on_cpu : kind.on_gpu;
  return layout == PixelLayout::channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

std::vector<std::string> kernel_names(const Network& network) {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : network.named_parameters())
    if (parameter.tensor.dim() == 4) names.push_back(parameter.name);
  return names;
}

}  // namespace dtrain
