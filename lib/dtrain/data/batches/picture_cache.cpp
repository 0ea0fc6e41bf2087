#include "dtrain/data/batches/picture_cache.hpp"

#include <ATen/core/Tensor.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

RawPicture raw_row(const at::Tensor& pixels, const PixelKind& kind, int64_t row) {
  const auto* first = static_cast<const std::byte*>(pixels.const_data_ptr());
  const int64_t bytes = pixels.size(1) * pixels.size(2) * kind.channels * kind.value_bytes();
  return {first + row * bytes, {}, kind.bytes ? 1 : 0, kind.channels};
}

int64_t kept_bytes(const PixelKind& kind, const ImageOptions& size, bool masks) {
  return kind.picture_bytes(size) + (masks ? size.height * size.width : 0);
}

void PictureCache::keep(const std::vector<int64_t>& samples, const RawPictures& raw) {
  if (raw.places.empty()) return;
  for (size_t row = 0; row < raw.places.size(); ++row)
    places_[static_cast<size_t>(samples[raw.places[row]])] = {static_cast<int32_t>(blocks_.size()),
                                                              static_cast<int32_t>(row)};
  blocks_.push_back({raw.kind, raw.pixels, raw.masks});
  const auto bytes = static_cast<int64_t>(raw.pixels.nbytes() + (raw.masks.defined() ? raw.masks.nbytes() : 0));
  if (raw.pixels.is_cpu()) memory_.take(bytes);
  bytes_ += bytes;
}

const PictureCache::Block& PictureCache::block_of(int64_t sample) const {
  check(holds(sample), "a picture that is asked for is in the cache");
  return blocks_[static_cast<size_t>(places_[static_cast<size_t>(sample)].block)];
}

RawPicture PictureCache::picture(int64_t sample) const {
  const Block& block = block_of(sample);
  return raw_row(block.pixels, block.kind, places_[static_cast<size_t>(sample)].row);
}

RawPicture PictureCache::mask(int64_t sample) const {
  return raw_row(block_of(sample).masks, {}, places_[static_cast<size_t>(sample)].row);
}

}  // namespace dtrain
