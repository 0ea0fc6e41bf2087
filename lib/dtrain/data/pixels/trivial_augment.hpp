#pragma once
#include <cstdint>
#include <span>

namespace dtrain {

/// TrivialAugment (Müller and Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", ICCV 2021)
/// with the wide space of torchvision's TrivialAugmentWide: one operation, its strength one of 31 and its sign are
/// drawn for each picture, all equally likely. The results are those of torchvision on a Pillow picture of 8 bits, to
/// the bit (interpolation nearest, black where the picture does not reach); the effects of pixel_effects.hpp, on
/// floats, round elsewhere.
enum class TrivialOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
};
constexpr int kTrivialOps = 14;
constexpr int kTrivialBins = 31;

struct TrivialDraw {
  TrivialOp op = TrivialOp::identity;
  int bin = 0;            ///< 0 (no effect, for most) … 30
  bool negative = false;  ///< the other direction, where an operation has one
};

/// What torchvision's space has for the draw: a shear as a tangent, whole pixels, degrees counter-clockwise, a factor
/// less 1, bits that are kept, or a threshold; 0 for operations without strength.
double trivial_magnitude(const TrivialDraw& draw);

/// The operation moves pixels, those of a mask too.
bool moves_pixels(TrivialOp op);

/// A picture of 8 bits, HWC, grey or coloured or stacked: then contrast is changed in each channel by itself, and color
/// changes nothing, as in a grey picture. Changed in place.
struct ByteField {
  std::span<uint8_t> pixels;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 1;
  bool stacked = false;  ///< the channels are pictures of their own, no colours (ImageOptions::is_stacked())
};
void apply_trivial(const TrivialDraw& draw, const ByteField& picture);

}  // namespace dtrain
