#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/model/double_conv.hpp"
#include "dtrain/model/encoder.hpp"
#include "dtrain/model/functions.hpp"
#include "dtrain/model/layers.hpp"
#include "dtrain/model/options.hpp"

namespace dtrain {

namespace {

// (3x3 convolution, norm, ReLU) twice; the numbers are those of a Python Sequential that counts the ReLUs too.
struct DoubleConv : Module {
  DoubleConv(int64_t in, int64_t out) {
    conv1 = register_module("0", std::make_shared<Conv2d>(ConvShape{.in = in, .out = out, .kernel = 3, .padding = 1}));
    norm1 = register_module("1", std::make_shared<BatchNorm2d>(out));
    conv2 = register_module("3", std::make_shared<Conv2d>(ConvShape{.in = out, .out = out, .kernel = 3, .padding = 1}));
    norm2 = register_module("4", std::make_shared<BatchNorm2d>(out));
  }

  template <class X>
  X run(Parts<X> x) const {
    if constexpr (!std::is_same_v<X, GraphValue>) {
      if (!fuses(layers(), x)) x.assign(1, joined(x));
      if (fuses(layers(), x)) return fused_double_conv(layers(), x);
    }
    return two_convs(*conv1, *norm1, *conv2, *norm2, joined(x));
  }

  template <class X>
  PooledMaps<X> run_and_pool(const X& x) const {
    if constexpr (std::is_same_v<X, at::Tensor>)
      if (evaluates(layers(), x)) return evaluated_double_conv(layers(), x);
    const X maps = run(Parts<X>{x});
    return {maps, max_pool(maps, Window{2, 2, 0}, "pool")};
  }

  DoubleConvLayers layers() const { return {*conv1, *norm1, *conv2, *norm2}; }

  std::shared_ptr<Conv2d> conv1, conv2;
  std::shared_ptr<BatchNorm2d> norm1, norm2;
};

// Numbered children under one name, as Python's ModuleList.
template <class Child>
struct Numbered : Module {
  template <class... Arguments>
  void add(Arguments&&... arguments) {
    items.push_back(
        register_module(std::to_string(items.size()), std::make_shared<Child>(std::forward<Arguments>(arguments)...)));
  }

  std::vector<std::shared_ptr<Child>> items;
};

// For deep supervision: 1x1 convolutions that make logits of maps with half the picture's sides, a quarter and so on,
// which have so many channels.
using LowerHeads = Numbered<Conv2d>;
const std::string kLowerHeads = "deep";  // as a module

std::shared_ptr<LowerHeads> lower_heads(const std::vector<int64_t>& channels, int64_t outputs) {
  auto heads = std::make_shared<LowerHeads>();
  for (const int64_t in : channels) heads->add(ConvShape{.in = in, .out = outputs, .bias = true});
  return heads;
}

// Appends the logits of maps that are halved so often, where they are asked for and there is a head for them.
template <class X>
void add_lower(const std::shared_ptr<LowerHeads>& heads, size_t halved, const X& maps, std::vector<X>* lower) {
  if (lower == nullptr || heads == nullptr || halved == 0 || halved > heads->items.size()) return;
  lower->push_back((*heads->items[halved - 1])(maps));
}

// The last layers' parameters, those of deep supervision included.
std::vector<std::string> head_names(const std::string& last, const std::shared_ptr<LowerHeads>& heads) {
  std::vector<std::string> names = {last + ".weight", last + ".bias"};
  for (size_t i = 0; heads != nullptr && i < heads->items.size(); ++i)
    for (const char* kind : {".weight", ".bias"}) names.push_back(kLowerHeads + "." + std::to_string(i) + kind);
  return names;
}

class UNet final : public NetworkOf<UNet> {
 public:
  UNet(const NetworkShape& shape, int64_t base_width, int64_t level_count) {
    check(base_width >= 1 && level_count >= 1, "model.base_width and model.levels are at least 1");
    const auto levels = static_cast<size_t>(level_count);  // each halves the picture
    std::vector<int64_t> width;
    for (size_t i = 0; i <= levels; ++i) width.push_back(base_width << i);
    down_ = register_module("down", std::make_shared<Numbered<DoubleConv>>());
    for (size_t i = 0; i < levels; ++i) down_->add(i == 0 ? shape.channels : width[i - 1], width[i]);
    bridge_ = register_module("bridge", std::make_shared<DoubleConv>(width[levels - 1], width[levels]));
    up_ = register_module("up", std::make_shared<Numbered<ConvTranspose2d>>());
    merge_ = register_module("merge", std::make_shared<Numbered<DoubleConv>>());
    for (size_t i = levels; i-- > 0;) {
      up_->add(ConvShape{.in = width[i + 1], .out = width[i], .kernel = 2, .stride = 2, .bias = true});
      merge_->add(2 * width[i], width[i]);
    }
    head_ = register_module("head",
                            std::make_shared<Conv2d>(ConvShape{.in = width[0], .out = shape.outputs, .bias = true}));
    if (shape.deep_supervision && levels > 2)
      deep_ = register_module(kLowerHeads, lower_heads({width.begin() + 1, width.end() - 2}, shape.outputs));
  }

  std::vector<std::string> head() const override { return head_names("head", deep_); }
  std::string lower_head_prefix() const override { return kLowerHeads + "."; }

  template <class X>
  X run(X x, std::vector<X>* lower = nullptr) const {
    std::vector<X> skips;
    for (const auto& block : down_->items) {
      PooledMaps<X> level = block->run_and_pool(x);
      skips.push_back(std::move(level.maps));
      x = std::move(level.pooled);
    }
    x = bridge_->run(Parts<X>{x});
    for (size_t i = 0; i < up_->items.size(); ++i) {
      Parts<X> both;  // holds them alone
      both.push_back(std::move(skips.back()));
      skips.pop_back();
      both.push_back((*up_->items[i])(x));
      x = merge_->items[i]->run(std::move(both));
      add_lower(deep_, skips.size(), x, lower);
    }
    return (*head_)(x);
  }

 private:
  std::shared_ptr<Numbered<DoubleConv>> down_, merge_;
  std::shared_ptr<DoubleConv> bridge_;
  std::shared_ptr<Numbered<ConvTranspose2d>> up_;
  std::shared_ptr<Conv2d> head_;
  std::shared_ptr<LowerHeads> deep_;
};

// 3x3 convolution, norm, ReLU; "0" and "1" as in a Python Sequential.
struct ConvNorm : Module {
  ConvNorm(int64_t in, int64_t out) {
    conv = register_module("0", std::make_shared<Conv2d>(ConvShape{.in = in, .out = out, .kernel = 3, .padding = 1}));
    norm = register_module("1", std::make_shared<BatchNorm2d>(out));
  }

  std::shared_ptr<Conv2d> conv;
  std::shared_ptr<BatchNorm2d> norm;
};

struct DecoderBlock : Module {
  DecoderBlock(int64_t in, int64_t out) {
    conv1 = register_module("conv1", std::make_shared<ConvNorm>(in, out));
    conv2 = register_module("conv2", std::make_shared<ConvNorm>(out, out));
  }

  template <class X>
  X run(const X& x) const {
    return two_convs(*conv1->conv, *conv1->norm, *conv2->conv, *conv2->norm, x);
  }

  std::shared_ptr<ConvNorm> conv1, conv2;
};

struct Decoder : Module {
  Decoder() { blocks = register_module("blocks", std::make_shared<Numbered<DecoderBlock>>()); }

  std::shared_ptr<Numbered<DecoderBlock>> blocks;
};

struct DecoderHead : Module {
  DecoderHead(int64_t in, int64_t out) {
    conv = register_module(
        "0", std::make_shared<Conv2d>(ConvShape{.in = in, .out = out, .kernel = 3, .padding = 1, .bias = true}));
  }

  std::shared_ptr<Conv2d> conv;
};

constexpr std::array<int64_t, 5> kDecoderWidths{256, 128, 64, 32, 16};

// Another network's maps in place of the first half. Each block of the decoder doubles the sides and reads the
// encoder's map of this size beside it; the last has none, its size being the picture's.
class EncodedUNet final : public NetworkOf<EncodedUNet> {
 public:
  EncodedUNet(const NetworkShape& shape, const NetworkKind& encoder) {
    encoder_ = register_module("encoder", encoder.encoder(shape.channels));
    decoder_ = register_module("decoder", std::make_shared<Decoder>());
    std::vector<int64_t> beside = encoder_->widths();
    check(beside.size() == kDecoderWidths.size(), "an encoder halves the picture as often as the decoder doubles it");
    int64_t in = beside.back();
    beside.pop_back();
    for (const int64_t out : kDecoderWidths) {
      decoder_->blocks->add(in + (beside.empty() ? 0 : beside.back()), out);
      if (!beside.empty()) beside.pop_back();
      in = out;
    }
    head_ = register_module("segmentation_head", std::make_shared<DecoderHead>(in, shape.outputs));
    if (shape.deep_supervision)
      deep_ = register_module(kLowerHeads,
                              lower_heads({kDecoderWidths.rbegin() + 1, kDecoderWidths.rend() - 1}, shape.outputs));
  }

  std::vector<std::string> head() const override { return head_names("segmentation_head.0", deep_); }
  std::string lower_head_prefix() const override { return kLowerHeads + "."; }

  std::optional<BorrowedPart> borrowed_part() const override { return BorrowedPart{"encoder.", encoder_->unused()}; }

  template <class X>
  X run(const X& images, std::vector<X>* lower = nullptr) const {
    std::vector<X> beside = encoder_->maps(images);
    X x = std::move(beside.back());
    beside.pop_back();
    size_t halved = kDecoderWidths.size();
    for (const auto& block : decoder_->blocks->items) {
      x = doubled(x, "upsample");
      if (!beside.empty()) {
        x = concat(std::vector<X>{x, beside.back()}, "concat");
        beside.pop_back();
      }
      x = block->run(x);
      add_lower(deep_, --halved, x, lower);
    }
    return (*head_->conv)(x);
  }

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Decoder> decoder_;
  std::shared_ptr<DecoderHead> head_;
  std::shared_ptr<LowerHeads> deep_;
};

}  // namespace

/// UNet (Ronneberger et al., MICCAI 2015) with padded convolutions and BatchNorm: with four levels widths base_width ·
/// (1, 2, 4, 8), bridge base_width · 16. With an encoder it is the Unet of segmentation_models_pytorch (P.
/// Iakubovskii), in names, shapes and order of concatenation; all its kernels start as the encoder's network has it.
/// With deep supervision the halves of the way up but the coarsest have logits too, as nnU-Net weighs them (Isensee et
/// al. 2021): deep.0 at half the picture's sides, deep.1 at a quarter and so on.
extern const NetworkKind kUNet = {
    .name = "unet",
    .make = [](const ModelOptions& options, const NetworkShape& shape) -> std::shared_ptr<Network> {
      if (options.encoder != nullptr) return std::make_shared<EncodedUNet>(shape, *options.encoder);
      return std::make_shared<UNet>(shape, options.base_width, options.levels);
    },
    .least_side = 16,
    .side_multiple = 16,
    .side_multiple_by =
        [](const ModelOptions& options) {
          return int64_t{1} << (options.encoder != nullptr ? kDecoderWidths.size()
                                                           : static_cast<size_t>(options.levels));
        },
    .per_pixel = true,
    .image_channels = 1,
    .keys = {"base_width", "levels", "encoder"},
    .lower_logits =
        [](const ModelOptions& options) {
          const auto doublings =
              options.encoder != nullptr ? static_cast<int64_t>(kDecoderWidths.size()) : options.levels;
          return std::max<int64_t>(0, doublings - 2);
        },
    // Measured with one thread on an AVX-512 core, LibTorch 2.11: 1.4 times as fast as NCHW.
    .on_cpu = PixelLayout::channels_last,
};

}  // namespace dtrain
