#include "dtrain/data/pack/stored_sample.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/data/pixels/raw_pictures.hpp"
#include "dtrain/data/pixels/transform.hpp"

namespace dtrain {

template <typename Value>
static std::vector<Value> rounded(const std::vector<float>& pixels, float white) {
  std::vector<Value> values(pixels.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<Value>(std::lround(std::clamp(pixels[i], 0.0F, 1.0F) * white));
  return values;
}

static Image stored_picture(const Image& picture, const ImageOptions& size) {
  const PixelKind kind = pixel_kind({picture.height, picture.width, picture.channels, picture.bits}, size);
  Image stored{size.height, size.width, kind.channels, picture.bits, {}, {}};
  if (kind.bytes) {
    stored.bytes.resize(static_cast<size_t>(kind.picture_bytes(size)));
    raw_image(picture, size, kind, std::as_writable_bytes(std::span(stored.bytes)));
    return stored;
  }
  const std::vector<float> pixels = resized_pixels(picture, size);
  if (picture.bits == 16) {
    stored.words = rounded<uint16_t>(pixels, 65535);
  } else {
    stored.bytes = rounded<uint8_t>(pixels, 255);
  }
  return stored;
}

StoredSample stored_sample(const Dataset& dataset, const DataOptions& data, int64_t index) {
  const SampleFiles files = read_sample_files(dataset, index);
  const Image picture = decode_picture(dataset, index, files);
  ImageOptions size = data.image;
  size.range_low = size.range_high = 0;  // applied by training
  StoredSample stored{stored_picture(picture, size), std::nullopt};
  if (dataset.task != Task::segmentation) return stored;
  const Image mask = decode_mask(dataset, index, files);
  require_same_size(dataset, index, picture, mask);
  stored.mask = Image{size.height, size.width, 1, 8, {}, {}};
  stored.mask->bytes.resize(static_cast<size_t>(size.height * size.width));
  raw_mask(mask, size, static_cast<int64_t>(dataset.classes.size()), stored.mask->bytes);
  return stored;
}

static AugmentDraw draw_of_turn(PackTurn turn) {
  AugmentDraw draw;
  draw.hflip = turn == PackTurn::hflip;
  draw.vflip = turn == PackTurn::vflip;
  if (turn >= PackTurn::rot90) draw.quarter_turns = 1 + static_cast<int>(turn) - static_cast<int>(PackTurn::rot90);
  return draw;
}

template <typename Value>
static std::vector<Value> walked(const std::vector<Value>& from, const Image& image, const PictureWalk& walk) {
  std::vector<Value> to;
  to.reserve(from.size());
  if (from.empty()) return to;
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      const auto pixel = from.begin() + (walk.start + y * walk.down + x * walk.right) * image.channels;
      to.insert(to.end(), pixel, pixel + image.channels);
    }
  return to;
}

static Image walked(const Image& image, const PictureWalk& walk) {
  return {image.height,
          image.width,
          image.channels,
          image.bits,
          walked(image.bytes, image, walk),
          walked(image.words, image, walk)};
}

StoredSample turned(const StoredSample& sample, PackTurn turn) {
  AugmentDraw draw = draw_of_turn(turn);
  const bool half = draw.quarter_turns == 2;  // possible for pictures that are not square, too
  if (half) draw = {.hflip = true, .vflip = true};
  ImageOptions size;
  size.height = sample.picture.height;
  size.width = sample.picture.width;
  const PictureWalk walk = walk_of(draw, size);
  StoredSample copy{walked(sample.picture, walk), std::nullopt};
  if (sample.mask) copy.mask = walked(*sample.mask, walk);
  return copy;
}

std::string stored_path(const Sample& sample, PackTurn turn) {
  return turn == PackTurn::none ? sample.path : sample.path + "@" + name_of(turn);
}

}  // namespace dtrain
