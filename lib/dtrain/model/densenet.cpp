#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "dtrain/model/dense_slab.hpp"
#include "dtrain/model/device_slab.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/layers.hpp"
#include "dtrain/model/options.hpp"
#include "dtrain/model/winograd.hpp"

namespace dtrain {

namespace {

constexpr int64_t kGrowth = 32;     // channels that each dense layer adds
constexpr int64_t kBottleneck = 4;  // width of the 1x1 convolution inside one, in growths
constexpr int64_t kFirstWidth = 64;

using BlockLayers = std::array<int, 4>;  // dense layers of each block: what tells the depths apart

struct DenseLayer : Module {
  explicit DenseLayer(int64_t in) {
    norm1 = register_module("norm1", std::make_shared<BatchNorm2d>(in));
    conv1 = register_module("conv1", std::make_shared<Conv2d>(ConvShape{.in = in, .out = kBottleneck * kGrowth}));
    norm2 = register_module("norm2", std::make_shared<BatchNorm2d>(kBottleneck * kGrowth));
    conv2 = register_module("conv2", std::make_shared<Conv2d>(ConvShape{
                                         .in = kBottleneck * kGrowth, .out = kGrowth, .kernel = 3, .padding = 1}));
  }

  template <class X>
  X run(const X& x) const {
    return (*conv2)(norm_relu(*norm2, (*conv1)(norm_relu(*norm1, x))));
  }

  std::shared_ptr<BatchNorm2d> norm1, norm2;
  std::shared_ptr<Conv2d> conv1, conv2;
};

struct DenseBlock : Module {
  DenseBlock(int64_t in, int layer_count) {
    for (int i = 0; i < layer_count; ++i)
      layers.push_back(
          register_module("denselayer" + std::to_string(i + 1), std::make_shared<DenseLayer>(in + i * kGrowth)));
  }

  template <class X>
  X run(const X& x, const std::string& name) const {
    std::vector<X> features{x};
    for (const auto& layer : layers)
      features.push_back(layer->run(features.size() == 1 ? x : concat(features, name + ".concat")));
    return concat(features, name + ".concat");
  }

  std::vector<std::shared_ptr<DenseLayer>> layers;
};

struct Transition : Module {
  explicit Transition(int64_t in) {
    norm = register_module("norm", std::make_shared<BatchNorm2d>(in));
    conv = register_module("conv", std::make_shared<Conv2d>(ConvShape{.in = in, .out = in / 2}));
  }

  template <class X>
  X run(const X& x, const std::string& name) const {
    return average_pool((*conv)(norm_relu(*norm, x)), Window{2, 2, 0}, name + ".pool");
  }

  std::shared_ptr<BatchNorm2d> norm;
  std::shared_ptr<Conv2d> conv;
};

struct Features : Module {
  Features(int64_t channels, const BlockLayers& block_layers) {
    conv0 = register_module("conv0", std::make_shared<Conv2d>(ConvShape{
                                         .in = channels, .out = kFirstWidth, .kernel = 7, .stride = 2, .padding = 3}));
    norm0 = register_module("norm0", std::make_shared<BatchNorm2d>(kFirstWidth));
    width = kFirstWidth;
    for (size_t i = 0; i < block_layers.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      blocks.push_back(register_module("denseblock" + number, std::make_shared<DenseBlock>(width, block_layers[i])));
      width += block_layers[i] * kGrowth;
      if (i + 1 == block_layers.size()) break;
      transitions.push_back(register_module("transition" + number, std::make_shared<Transition>(width)));
      width /= 2;
    }
    norm5 = register_module("norm5", std::make_shared<BatchNorm2d>(width));
  }

  // What a memory plan knows of that: the values of a layer's 1x1 convolution wait for the way back; meanwhile there
  // are these once more, rectified, and the new channels.
  Sketch run_fused(const Sketch& x, size_t i) const {
    const int64_t pixels = x.shape[1] * x.shape[2];
    const Sketch end = x.list->untaped([&] { return run_block(x, i); });
    const int64_t layers = static_cast<int64_t>(blocks[i]->layers.size()), wide = x.shape[0] + layers * kGrowth;
    const Sketch slab =
        x.list->add_step({.op = PassTape::Op::slab, .reads = {x.value}}, {wide, x.shape[1], x.shape[2]});
    for (int64_t layer = 0; layer < layers; ++layer) {
      const int64_t middle = kBottleneck * kGrowth * pixels;
      x.list->add_step({.op = PassTape::Op::slab_layer,
                        .reads = {slab.value},
                        .weights = 9 * kBottleneck * kGrowth * kGrowth,
                        .kept = middle,
                        .scratch = middle + kGrowth * pixels,
                        .workspace = winograd_workspace(kBottleneck * kGrowth, kGrowth, x.shape[1], x.shape[2])},
                       {});
    }
    const bool last = i == transitions.size();
    return x.list->add_step(
        {.op = PassTape::Op::slab_end, .reads = {slab.value}, .scratch = last ? 0 : wide * pixels / 4}, end.shape);
  }

  // The same with each block as one slab.
  at::Tensor run_fused(const at::Tensor& x, size_t i) const {
    const int64_t wide = x.size(1) + static_cast<int64_t>(blocks[i]->layers.size()) * kGrowth;
    return x.is_cpu() ? run_through(DenseSlab(x, wide, is_training()), i)
                      : run_through(DeviceSlab(x, wide, is_training()), i);
  }
  template <class Slab>
  at::Tensor run_through(Slab slab, size_t i) const {
    for (const auto& layer : blocks[i]->layers)
      slab.add_layer(*layer->norm1, *layer->conv1, *layer->norm2, *layer->conv2);
    if (i == transitions.size()) return slab.normalised(*norm5);
    return slab.transition(*transitions[i]->norm, *transitions[i]->conv);
  }

  bool can_fuse(const Sketch& x, size_t) const { return x.list->fused(); }
  // A slab's norms are all of one mode: frozen ones keep the running statistics that they have.
  bool can_fuse(const at::Tensor& x, size_t i) const {
    const auto follows = [&](const BatchNorm2d& norm) { return norm.is_training() == is_training(); };
    const auto both_follow = [&](const auto& layer) { return follows(*layer->norm1) && follows(*layer->norm2); };
    const bool serves =
        x.is_cpu() ? DenseSlab::serves(x, is_training()) : DeviceSlab::serves(*blocks[i]->layers.front()->norm1, x);
    return serves && std::ranges::all_of(blocks[i]->layers, both_follow) &&
           follows(i < transitions.size() ? *transitions[i]->norm : *norm5);
  }

  // A block with what follows it.
  template <class X>
  X run_block(const X& x, size_t i) const {
    const std::string number = std::to_string(i + 1);
    const X all = blocks[i]->run(x, "features.denseblock" + number);
    return i < transitions.size() ? transitions[i]->run(all, "features.transition" + number) : norm_relu(*norm5, all);
  }

  template <class X>
  X run(X x) const {
    x = norm_relu_max_pool(*norm0, (*conv0)(x), Window{3, 2, 1}, "features.pool0");
    for (size_t i = 0; i < blocks.size(); ++i) {
      if constexpr (!std::is_same_v<X, GraphValue>)
        if (is_fused() && can_fuse(x, i)) {
          x = run_fused(x, i);
          continue;
        }
      x = run_block(x, i);
    }
    return x;
  }

  std::shared_ptr<Conv2d> conv0;
  std::shared_ptr<BatchNorm2d> norm0, norm5;
  std::vector<std::shared_ptr<DenseBlock>> blocks;
  std::vector<std::shared_ptr<Transition>> transitions;
  int64_t width = 0;  // channels of the result
};

class DenseNet final : public NetworkOf<DenseNet> {
 public:
  DenseNet(const NetworkShape& shape, const BlockLayers& block_layers) {
    features_ = register_module("features", std::make_shared<Features>(shape.channels, block_layers));
    classifier_ = register_module("classifier", std::make_shared<Linear>(features_->width, shape.outputs));
  }

  std::vector<std::string> head() const override { return {"classifier.weight", "classifier.bias"}; }

  // Files of before 2017 write denselayer1.norm.1 for denselayer1.norm1.
  std::string current_name(const std::string& name) const override {
    const size_t layer = name.find("denselayer");
    if (layer == std::string::npos) return name;
    for (const char* old : {".norm.1.", ".norm.2.", ".conv.1.", ".conv.2."}) {
      const size_t at = name.find(old, layer);
      if (at != std::string::npos) return std::string(name).erase(at + 5, 1);
    }
    return name;
  }

  template <class X>
  X run(const X& x) const {
    return classify(maps(x));
  }
  template <class X>
  X maps(const X& x) const {
    return features_->run(x);
  }
  template <class X>
  X classify(const X& maps) const {
    return (*classifier_)(global_average_pool(maps, "features.pool"));
  }

 private:
  std::shared_ptr<Features> features_;
  std::shared_ptr<Linear> classifier_;
};

template <int... kLayers>
std::shared_ptr<Network> make_densenet(const ModelOptions&, const NetworkShape& shape) {
  return std::make_shared<DenseNet>(shape, BlockLayers{kLayers...});
}

constexpr InitialWeights kDenseNetStart = {.kernels = KernelStart::normal_fan_in, .zero_dense_bias = true};
constexpr int64_t kDenseNetLeastSide = 29;  // below that the last pooling leaves nothing

}  // namespace

/// DenseNet-121 (Huang et al., "Densely connected convolutional networks", CVPR 2017), as torchvision's densenet121.
extern const NetworkKind kDenseNet121 = {
    .name = "densenet121",
    .make = make_densenet<6, 12, 24, 16>,
    .start = kDenseNetStart,
    .least_side = kDenseNetLeastSide,
    .proposed_for = NetworkKind::ProposedFor::many,
    // Measured with one thread on an AVX-512 core, LibTorch 2.11: 1.25 times as fast as NCHW.
    .on_cpu = PixelLayout::channels_last,
};

/// DenseNet-169 of the same paper, as torchvision's densenet169.
extern const NetworkKind kDenseNet169 = {
    .name = "densenet169",
    .make = make_densenet<6, 12, 32, 32>,
    .start = kDenseNetStart,
    .least_side = kDenseNetLeastSide,
    .on_cpu = PixelLayout::channels_last,  // as densenet121, of whose layers it has more
};

/// DenseNet-201 of the same paper, as torchvision's densenet201.
extern const NetworkKind kDenseNet201 = {
    .name = "densenet201",
    .make = make_densenet<6, 12, 48, 32>,
    .start = kDenseNetStart,
    .least_side = kDenseNetLeastSide,
    .on_cpu = PixelLayout::channels_last,  // likewise
};

}  // namespace dtrain
