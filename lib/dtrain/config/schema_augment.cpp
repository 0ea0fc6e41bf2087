#include "dtrain/config/schema.hpp"

namespace dtrain {

std::vector<Key> describe_augmentation(AugmentOptions& a, const ImageOptions& i) {
  std::vector<Key> keys;
  const auto add = [&](const std::string& name, Codec codec, const std::string& doc) -> Key& {
    return keys.emplace_back("data.augment." + name, std::move(codec), doc);
  };
  const RealRange share{.max = 1};
  const RealRange below_one{.max = 1, .max_open = true};
  const RealRange pixels{.max = 1000};
  const RealRange alpha{.max = 100};
  add("hflip", real_codec(a.hflip, share), "Probability of mirroring left to right, only in training.");
  add("vflip", real_codec(a.vflip, share), "Probability of mirroring top to bottom.");
  add("rot90", real_codec(a.rot90, share), "Probability of a turn by 90, 180 or 270 degrees; needs a square picture.");
  add("random_window", flag_codec(a.random_window),
      "The window of `data.image.window` is at a random place in the picture, a new one in each epoch, instead of in "
      "the middle.")
      .only(i.window_height > 0, "`data.image.window` is given", {"data.image.window"});
  add("random_crop", range_codec(a.random_crop_low, a.random_crop_high, {.max = 1, .min_open = true, .word = "none"}),
      "Share of the picture's area that is cut out at a random place and stretched to `data.image.size`, instead of "
      "`data.image.resize`: [0.08, 1] as for ImageNet.");
  add("random_crop_aspect", range_codec(a.crop_aspect_low, a.crop_aspect_high, {.max = 100, .min_open = true}),
      "Width over height of the crop, beyond the stretch of `data.image.resize` (squash: that of the whole picture; "
      "pad, crop: none); uniform in its logarithm.")
      .only(a.random_crop_high > 0, "`data.augment.random_crop` is given", {"data.augment.random_crop"});
  add("rotate", real_codec(a.rotate, {.max = 180}), "r: a turn by [-r, r] degrees about the middle.");
  add("scale", real_codec(a.scale, below_one), "s: enlarged by a factor from [1 - s, 1 + s] about the middle.");
  add("translate", real_codec(a.translate, share), "t: moved by [-t, t] of the height and of the width.");
  add("elastic", real_codec(a.elastic, pixels),
      "Standard deviation in pixels of `data.image.size` by which the points of a grid are displaced; what lies "
      "between "
      "follows smoothly.");
  add("elastic_grid", whole_codec(a.elastic_grid, {.min = 2, .max = 64}),
      "Points of that grid along each side, the first and the last on the edges.")
      .only(a.elastic > 0, "`data.augment.elastic` is above 0", {"data.augment.elastic"});
  add("blur", real_codec(a.blur, {.max = 64}),
      "b: Gaussian blur with a standard deviation from [0, b], in pixels of `data.image.size`.");
  add("brightness", real_codec(a.brightness, share), "b: pixels times a factor from [1 - b, 1 + b].");
  add("contrast", real_codec(a.contrast, share),
      "c: distance from the picture's mean times a factor from [1 - c, 1 + c].");
  add("gamma", real_codec(a.gamma, {.max = 10}),
      "g: pixels in [0, 1] to the power of a number from [1 / (1 + g), 1 + g], uniform in its logarithm.");
  add("noise", real_codec(a.noise, share),
      "n: Gaussian noise with a standard deviation from [0, n], where black is 0 and white 1; each channel of "
      "a coloured picture has its own.");
  add("cutout", real_codec(a.cutout, below_one),
      "c: a rectangle of c times height and width, its centre anywhere, becomes `data.image.mean`, for a grey file "
      "with `data.image.channels` 3 the mean of the three; only in the picture, not in its mask.");
  add("trivial_augment", flag_codec(a.trivial),
      "TrivialAugment (Müller and Hutter 2021) with torchvision's wide space: each picture gets one of 14 operations "
      "at one "
      "of 31 strengths, with the pixels, rounded to 8 bits, that torchvision gives; a mask moves with its picture.")
      .older_runs_had("false");
  add("mixup", real_codec(a.mixup, alpha),
      "alpha: all pictures of a logical rank's batch are mixed with their neighbours, λ to 1 - λ with λ from "
      "Beta(alpha, alpha), and so are their losses. With `cutmix` too, each batch gets one of the two, either with "
      "probability 1/2.");
  add("cutmix", real_codec(a.cutmix, alpha),
      "alpha: a rectangle of 1 - λ of the area is replaced by the neighbour's; labels count by area, masks are cut "
      "along.");
  return keys;
}

}  // namespace dtrain
