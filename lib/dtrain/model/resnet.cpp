#include <array>
#include <string>
#include <vector>

#include "dtrain/model/functions.hpp"
#include "dtrain/model/layers.hpp"
#include "dtrain/model/networks.hpp"

namespace dtrain {

namespace {

constexpr int64_t kExpansion = 4;  // channels that leave a bottleneck, in widths
constexpr std::array<int, 4> kStageBlocks{3, 4, 6, 3};

// 1x1 convolution and norm where a block changes size or stride; named "0" and "1" as in a Python Sequential.
struct Shortcut : Module {
  Shortcut(int64_t in, int64_t out, int64_t stride) {
    conv = register_module("0", std::make_shared<Conv2d>(ConvShape{.in = in, .out = out, .stride = stride}));
    norm = register_module("1", std::make_shared<BatchNorm2d>(out));
  }

  std::shared_ptr<Conv2d> conv;
  std::shared_ptr<BatchNorm2d> norm;
};

struct Bottleneck : Module {
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
    const X y = (*bn3)((*conv3)(norm_relu(*bn2, (*conv2)(norm_relu(*bn1, (*conv1)(x))))));
    return relu_in_place(add_to(y, downsample ? (*downsample->norm)((*downsample->conv)(x)) : x));
  }

  std::shared_ptr<Conv2d> conv1, conv2, conv3;
  std::shared_ptr<BatchNorm2d> bn1, bn2, bn3;
  std::shared_ptr<Shortcut> downsample;
};

struct Stage : Module {
  Stage(int64_t in, int64_t width, int block_count, int64_t stride) {
    for (int i = 0; i < block_count; ++i)
      blocks.push_back(
          register_module(std::to_string(i), i == 0 ? std::make_shared<Bottleneck>(in, width, stride)
                                                    : std::make_shared<Bottleneck>(width * kExpansion, width, 1)));
  }

  std::vector<std::shared_ptr<Bottleneck>> blocks;
};

class ResNet50 final : public NetworkOf<ResNet50> {
 public:
  explicit ResNet50(const NetworkShape& shape) {
    conv1_ = register_module("conv1", std::make_shared<Conv2d>(ConvShape{
                                          .in = shape.channels, .out = 64, .kernel = 7, .stride = 2, .padding = 3}));
    bn1_ = register_module("bn1", std::make_shared<BatchNorm2d>(64));
    int64_t in = 64;
    for (size_t i = 0; i < kStageBlocks.size(); ++i) {
      const int64_t width = int64_t{64} << i;
      stages_.push_back(register_module("layer" + std::to_string(i + 1),
                                        std::make_shared<Stage>(in, width, kStageBlocks[i], i == 0 ? 1 : 2)));
      in = width * kExpansion;
    }
    fc_ = register_module("fc", std::make_shared<Linear>(in, shape.outputs));
  }

  std::vector<std::string> head() const override { return {"fc.weight", "fc.bias"}; }

  template <class X>
  X run(X x) const {
    x = max_pool(norm_relu(*bn1_, (*conv1_)(x)), Window{3, 2, 1}, "maxpool");
    for (const auto& stage : stages_)
      for (const auto& block : stage->blocks) x = block->run(x);
    return (*fc_)(global_average_pool(x, "avgpool"));
  }

 private:
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::vector<std::shared_ptr<Stage>> stages_;
  std::shared_ptr<Linear> fc_;
};

}  // namespace

std::shared_ptr<Network> make_resnet50(const NetworkShape& shape) { return std::make_shared<ResNet50>(shape); }

}  // namespace dtrain
