#include "dtrain/data/pixels/augment.hpp"

#include <cmath>

#include "dtrain/base/random.hpp"

namespace dtrain {

static double log_uniform(KeyedRandom& random, double low, double high) {
  return std::exp(random.uniform(std::log(low), std::log(high)));
}

bool AugmentDraw::moves_alone() const {
  const bool placed = crop || rotate != 0 || scale != 1 || translate_y != 0 || translate_x != 0 || elastic > 0;
  const bool lit = brightness != 1 || contrast != 1 || gamma != 1;
  return !placed && !lit && !trivial && blur == 0 && noise == 0 && cutout == 0;
}

AugmentDraw draw_augmentation(const AugmentOptions& options, uint64_t seed, int64_t epoch, uint64_t sample_id,
                              int64_t repeat) {
  // Every number is drawn whatever the options are, so that switching one kind on does not change the others. New kinds
  // must be drawn after the existing ones.
  KeyedRandom random(seed, Purpose::augmentation, static_cast<uint64_t>(epoch | repeat << 32), sample_id);
  AugmentDraw draw;
  draw.hflip = random.chance(options.hflip);
  draw.vflip = random.chance(options.vflip);
  const bool turned = random.chance(options.rot90);
  const int turns = 1 + static_cast<int>(random.below(3));
  draw.quarter_turns = turned ? turns : 0;
  draw.brightness = static_cast<float>(random.uniform(1 - options.brightness, 1 + options.brightness));
  draw.contrast = static_cast<float>(random.uniform(1 - options.contrast, 1 + options.contrast));
  draw.crop = options.random_crop_high > 0;
  draw.crop_area = random.uniform(options.random_crop_low, options.random_crop_high);
  draw.crop_aspect = log_uniform(random, options.crop_aspect_low, options.crop_aspect_high);
  draw.crop_y = random.uniform();
  draw.crop_x = random.uniform();
  draw.rotate = random.uniform(-options.rotate, options.rotate);
  draw.scale = random.uniform(1 - options.scale, 1 + options.scale);
  draw.translate_y = random.uniform(-options.translate, options.translate);
  draw.translate_x = random.uniform(-options.translate, options.translate);
  draw.elastic = options.elastic;
  draw.elastic_grid = options.elastic_grid;
  draw.elastic_key = random.next64();
  draw.blur = static_cast<float>(random.uniform(0, options.blur));
  draw.gamma = static_cast<float>(log_uniform(random, 1 / (1 + options.gamma), 1 + options.gamma));
  draw.noise = static_cast<float>(random.uniform(0, options.noise));
  draw.noise_key = random.next64();
  draw.cutout = options.cutout;
  draw.cutout_y = random.uniform();
  draw.cutout_x = random.uniform();
  draw.window = options.random_window;
  draw.window_y = random.uniform();
  draw.window_x = random.uniform();
  const TrivialDraw trivial{static_cast<TrivialOp>(random.below(kTrivialOps)),
                            static_cast<int>(random.below(kTrivialBins)), random.chance(0.5)};
  if (options.trivial) draw.trivial = trivial;
  return draw;
}

}  // namespace dtrain
