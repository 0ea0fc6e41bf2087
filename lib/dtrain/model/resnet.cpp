#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtrain/model/encoder.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/layers.hpp"
#include "dtrain/model/options.hpp"

namespace dtrain {

namespace {

using StageBlocks = std::array<int, 4>;  // blocks of each stage: with their kind, what tells the depths apart

// 1x1 convolution and norm where a block changes size or stride; named "0" and "1" as in a Python Sequential.
struct Shortcut : Module {
  Shortcut(int64_t in, int64_t out, int64_t stride) {
    conv = register_module("0", std::make_shared<Conv2d>(ConvShape{.in = in, .out = out, .stride = stride}));
    norm = register_module("1", std::make_shared<BatchNorm2d>(out));
  }

  template <class X>
  X run(const X& x) const {
    if constexpr (std::is_same_v<X, at::Tensor>)
      if (evaluates(*norm, x)) return evaluated(*conv, *norm, x);
    return (*norm)((*conv)(x));
  }

  std::shared_ptr<Conv2d> conv;
  std::shared_ptr<BatchNorm2d> norm;
};

// Two 3x3 convolutions, the block of ResNet-18 and 34.
struct BasicBlock : Module {
  static constexpr int64_t kExpansion = 1;  // channels that leave it, in widths

  BasicBlock(int64_t in, int64_t width, int64_t stride) {
    conv1 = register_module("conv1", std::make_shared<Conv2d>(ConvShape{
                                         .in = in, .out = width, .kernel = 3, .stride = stride, .padding = 1}));
    bn1 = register_module("bn1", std::make_shared<BatchNorm2d>(width));
    conv2 = register_module("conv2",
                            std::make_shared<Conv2d>(ConvShape{.in = width, .out = width, .kernel = 3, .padding = 1}));
    bn2 = register_module("bn2", std::make_shared<BatchNorm2d>(width));
    if (stride != 1 || in != width)
      downsample = register_module("downsample", std::make_shared<Shortcut>(in, width, stride));
  }

  template <class X>
  X run(const X& x) const {
    const auto more = [&] { return downsample ? downsample->run(x) : x; };
    if constexpr (std::is_same_v<X, at::Tensor>)
      if (evaluates(*bn1, x) && evaluates(*bn2, x))
        return evaluated_relu(*conv2, *bn2, evaluated_relu(*conv1, *bn1, x), more());
    return norm_add_relu(*bn2, norm_relu_conv(*bn1, *conv2, (*conv1)(x)), more);
  }

  std::shared_ptr<Conv2d> conv1, conv2;
  std::shared_ptr<BatchNorm2d> bn1, bn2;
  std::shared_ptr<Shortcut> downsample;
};

// 1x1, 3x3 and 1x1, the block of the deeper ones.
struct Bottleneck : Module {
  static constexpr int64_t kExpansion = 4;

  Bottleneck(int64_t in, int64_t width, int64_t stride) {
    const int64_t out = width * kExpansion;
    conv1 = register_module("conv1", std::make_shared<Conv2d>(ConvShape{.in = in, .out = width}));
    bn1 = register_module("bn1", std::make_shared<BatchNorm2d>(width));
    conv2 = register_module("conv2", std::make_shared<Conv2d>(ConvShape{
                                         .in = width, .out = width, .kernel = 3, .stride = stride, .padding = 1}));
    bn2 = register_module("bn2", std::make_shared<BatchNorm2d>(width));
    conv3 = register_module("conv3", std::make_shared<Conv2d>(ConvShape{.in = width, .out = out}));
    bn3 = register_module("bn3", std::make_shared<BatchNorm2d>(out));
    if (stride != 1 || in != out)
      downsample = register_module("downsample", std::make_shared<Shortcut>(in, out, stride));
  }

  template <class X>
  X run(const X& x) const {
    const auto more = [&] { return downsample ? downsample->run(x) : x; };
    if constexpr (std::is_same_v<X, at::Tensor>)
      if (evaluates(*bn1, x) && evaluates(*bn2, x) && evaluates(*bn3, x))
        return evaluated_relu(*conv3, *bn3, evaluated_relu(*conv2, *bn2, evaluated_relu(*conv1, *bn1, x)), more());
    return norm_add_relu(*bn3, norm_relu_conv(*bn2, *conv3, norm_relu_conv(*bn1, *conv2, (*conv1)(x))), more);
  }

  std::shared_ptr<Conv2d> conv1, conv2, conv3;
  std::shared_ptr<BatchNorm2d> bn1, bn2, bn3;
  std::shared_ptr<Shortcut> downsample;
};

template <class Block>
struct Stage : Module {
  Stage(int64_t in, int64_t width, int block_count, int64_t stride) {
    for (int i = 0; i < block_count; ++i)
      blocks.push_back(
          register_module(std::to_string(i), i == 0 ? std::make_shared<Block>(in, width, stride)
                                                    : std::make_shared<Block>(width * Block::kExpansion, width, 1)));
  }

  std::vector<std::shared_ptr<Block>> blocks;
};

/// All layers before the pooling, part of a network or an encoder, whichever `Base` is.
template <class Base, class Block>
class Trunk : public Base {
 public:
  Trunk(int64_t channels, const StageBlocks& stage_blocks) {
    conv1_ = this->register_module("conv1", std::make_shared<Conv2d>(ConvShape{
                                                .in = channels, .out = 64, .kernel = 7, .stride = 2, .padding = 3}));
    bn1_ = this->register_module("bn1", std::make_shared<BatchNorm2d>(64));
    widths_.push_back(64);
    for (size_t i = 0; i < stage_blocks.size(); ++i) {
      const int64_t width = int64_t{64} << i;
      stages_.push_back(this->register_module(
          "layer" + std::to_string(i + 1),
          std::make_shared<Stage<Block>>(widths_.back(), width, stage_blocks[i], i == 0 ? 1 : 2)));
      widths_.push_back(width * Block::kExpansion);
    }
  }

 protected:
  static constexpr Window kPooling{3, 2, 1};
  static constexpr const char* kPoolingName = "maxpool";

  /// What part i makes of what the one before made: the first convolution, then each stage, the first behind a pooling.
  template <class X>
  X run_part(size_t i, X x) const {
    if (i == 0) return norm_relu(*bn1_, (*conv1_)(x));
    return run_stage(i - 1, i == 1 ? max_pool(x, kPooling, kPoolingName) : std::move(x));
  }
  /// The last part's maps, where nobody reads those of the others.
  template <class X>
  X run_all(const X& images) const {
    X x = norm_relu_max_pool(*bn1_, (*conv1_)(images), kPooling, kPoolingName);
    for (size_t i = 0; i < stages_.size(); ++i) x = run_stage(i, std::move(x));
    return x;
  }

  /// Channels that leave each of them.
  const std::vector<int64_t>& part_widths() const { return widths_; }

 private:
  template <class X>
  X run_stage(size_t i, X x) const {
    for (const auto& block : stages_[i]->blocks) x = block->run(x);
    return x;
  }

  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::vector<std::shared_ptr<Stage<Block>>> stages_;
  std::vector<int64_t> widths_;
};

template <class Block>
class ResNet final : public Trunk<NetworkOf<ResNet<Block>>, Block> {
 public:
  ResNet(const NetworkShape& shape, const StageBlocks& stage_blocks)
      : Trunk<NetworkOf<ResNet<Block>>, Block>(shape.channels, stage_blocks) {
    fc_ = this->register_module("fc", std::make_shared<Linear>(this->part_widths().back(), shape.outputs));
  }

  std::vector<std::string> head() const override { return {"fc.weight", "fc.bias"}; }

  template <class X>
  X run(const X& x) const {
    return classify(maps(x));
  }
  template <class X>
  X maps(const X& x) const {
    return this->run_all(x);
  }
  template <class X>
  X classify(const X& maps) const {
    return (*fc_)(global_average_pool(maps, "avgpool"));
  }

 private:
  std::shared_ptr<Linear> fc_;
};

template <class Block>
class ResNetEncoder final : public Trunk<Encoder, Block> {
 public:
  using Trunk<Encoder, Block>::Trunk;
  std::vector<at::Tensor> maps(const at::Tensor& images) const override { return all(images); }
  std::vector<Sketch> maps(const Sketch& images) const override { return all(images); }
  std::vector<GraphValue> maps(const GraphValue& images) const override { return all(images); }
  std::vector<int64_t> widths() const override { return this->part_widths(); }
  std::vector<std::string> unused() const override { return {"fc.weight", "fc.bias"}; }

 private:
  template <class X>
  std::vector<X> all(const X& images) const {
    std::vector<X> made;
    for (size_t i = 0; i < this->part_widths().size(); ++i)
      made.push_back(this->run_part(i, made.empty() ? images : made.back()));
    return made;
  }
};

template <class Block, int... kBlocks>
std::shared_ptr<Network> make_resnet(const ModelOptions&, const NetworkShape& shape) {
  return std::make_shared<ResNet<Block>>(shape, StageBlocks{kBlocks...});
}

template <class Block, int... kBlocks>
std::shared_ptr<Encoder> make_encoder(int64_t channels) {
  return std::make_shared<ResNetEncoder<Block>>(channels, StageBlocks{kBlocks...});
}

}  // namespace

/// ResNet-18 (He et al., "Deep residual learning for image recognition", CVPR 2016), as torchvision's resnet18.
extern const NetworkKind kResNet18 = {
    .name = "resnet18",
    .make = make_resnet<BasicBlock, 2, 2, 2, 2>,
    .start = {.kernels = KernelStart::normal_fan_out},
    .encoder = make_encoder<BasicBlock, 2, 2, 2, 2>,
    .on_cpu = PixelLayout::channels_last,  // as resnet50; not measured apart
};

/// ResNet-34 of the same paper, as torchvision's resnet34.
extern const NetworkKind kResNet34 = {
    .name = "resnet34",
    .make = make_resnet<BasicBlock, 3, 4, 6, 3>,
    .start = {.kernels = KernelStart::normal_fan_out},
    .encoder = make_encoder<BasicBlock, 3, 4, 6, 3>,
    .on_cpu = PixelLayout::channels_last,  // as resnet50; not measured apart
};

/// ResNet-50 of the same paper in the variant 1.5 of torchvision's resnet50: the stride lies in the 3x3 convolution of
/// a block.
extern const NetworkKind kResNet50 = {
    .name = "resnet50",
    .make = make_resnet<Bottleneck, 3, 4, 6, 3>,
    .start = {.kernels = KernelStart::normal_fan_out},
    .encoder = make_encoder<Bottleneck, 3, 4, 6, 3>,
    // Measured with one thread on an AVX-512 core, LibTorch 2.11: 1.3 times as fast as NCHW.
    .on_cpu = PixelLayout::channels_last,
};

/// ResNet-101 of the same paper in the same variant, as torchvision's resnet101.
extern const NetworkKind kResNet101 = {
    .name = "resnet101",
    .make = make_resnet<Bottleneck, 3, 4, 23, 3>,
    .start = {.kernels = KernelStart::normal_fan_out},
    .encoder = make_encoder<Bottleneck, 3, 4, 23, 3>,
    .on_cpu = PixelLayout::channels_last,  // as resnet50, of whose layers it has more
};

/// ResNet-152 of the same paper in the same variant, as torchvision's resnet152.
extern const NetworkKind kResNet152 = {
    .name = "resnet152",
    .make = make_resnet<Bottleneck, 3, 8, 36, 3>,
    .start = {.kernels = KernelStart::normal_fan_out},
    .encoder = make_encoder<Bottleneck, 3, 8, 36, 3>,
    .on_cpu = PixelLayout::channels_last,  // likewise
};

}  // namespace dtrain
