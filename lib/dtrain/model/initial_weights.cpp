#include "dtrain/model/initial_weights.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "dtrain/base/hash.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/model/layers.hpp"

namespace dtrain {

namespace {

std::span<float> places_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// Box–Muller with both of its values used: half the time of KeyedRandom::normal(), and ResNet-50 draws 25 million.
void fill_normal(const at::Tensor& tensor, double deviation, KeyedRandom random) {
  constexpr size_t kChunk = 4096;
  std::array<uint32_t, kChunk> bits;
  std::span<float> left = places_of(tensor);
  while (!left.empty()) {
    const size_t n = std::min(kChunk, left.size());
    random.fill(bits);
    for (size_t i = 0; i < n; i += 2) {
      const double radius = deviation * std::sqrt(-2.0 * std::log((bits[i] + 1.0) * 0x1.0p-32));
      const double angle = 2.0 * std::numbers::pi * 0x1.0p-32 * bits[i + 1];
      left[i] = static_cast<float>(radius * std::cos(angle));
      if (i + 1 < n) left[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
    left = left.subspan(n);
  }
}

void fill_uniform(const at::Tensor& tensor, double bound, KeyedRandom random) {
  for (float& place : places_of(tensor)) place = static_cast<float>(random.uniform(-bound, bound));
}

// PyTorch counts the second dimension as inputs and the first as outputs, for transposed convolutions too.
int64_t fan_in(const at::Tensor& weight) { return weight.numel() / weight.size(0); }
int64_t fan_out(const at::Tensor& weight) { return weight.numel() / weight.size(1); }

class Filler {
 public:
  Filler(const InitialWeights& how, uint64_t seed) : how_(how), seed_(seed) {}

  template <class Convolution>
  void convolution(const Convolution& layer, const std::string& name) const {
    const at::Tensor& w = layer.weight;
    if (how_.kernels == KernelStart::uniform) {
      fill_uniform(w, bound(w), stream(name + ".weight"));
    } else {
      const int64_t fan = how_.kernels == KernelStart::normal_fan_in ? fan_in(w) : fan_out(w);
      fill_normal(w, std::sqrt(2.0 / static_cast<double>(fan)), stream(name + ".weight"));
    }
    if (layer.bias.defined()) fill_uniform(layer.bias, bound(w), stream(name + ".bias"));
  }

  void dense(const Linear& layer, const std::string& name) const {
    fill_uniform(layer.weight, bound(layer.weight), stream(name + ".weight"));
    if (how_.zero_dense_bias) {
      std::ranges::fill(places_of(layer.bias), 0.0F);
    } else {
      fill_uniform(layer.bias, bound(layer.weight), stream(name + ".bias"));
    }
  }

 private:
  static double bound(const at::Tensor& weight) { return 1.0 / std::sqrt(static_cast<double>(fan_in(weight))); }
  KeyedRandom stream(const std::string& name) const { return {seed_, Purpose::initial_weights, hash64(name)}; }

  InitialWeights how_;
  uint64_t seed_;
};

}  // namespace

void draw_initial_weights(Network& network, const InitialWeights& how, uint64_t seed) {
  const Filler filler(how, seed);
  for (const auto& [name, module] : network.modules()) {
    if (const auto* conv = dynamic_cast<const Conv2d*>(module)) filler.convolution(*conv, name);
    if (const auto* up = dynamic_cast<const ConvTranspose2d*>(module)) filler.convolution(*up, name);
    if (const auto* dense = dynamic_cast<const Linear*>(module)) filler.dense(*dense, name);
  }
}

}  // namespace dtrain
