#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/base/memory.hpp"
#include "dtrain/data/batches/batch_source.hpp"

namespace dtrain {

/// data.loader.cache: device. The raw pictures and masks of the samples that this process has seen, in the memory of
/// the device that computes, so that later epochs neither read nor decode them again. It keeps the tensors in which
/// they arrived: nothing is copied. Augmentation comes afterwards and so is fresh each time.
///
/// One thread uses it: the one that calls Loader::start() and next(), and DeviceBatches.
class PictureCache {
 public:
  /// `samples`: of the data set.
  explicit PictureCache(int64_t samples) : places_(static_cast<size_t>(samples)) {}

  bool holds(int64_t sample) const { return places_[static_cast<size_t>(sample)].block >= 0; }
  /// Keeps the pictures of `raw`, which are on the device; those at raw.places of `samples`. Throws like
  /// MemoryDraw::take() if the device is the host.
  void keep(const std::vector<int64_t>& samples, const RawPictures& raw);
  /// A picture and a mask from the cache; the caller sets the walk.
  RawPicture picture(int64_t sample) const;
  RawPicture mask(int64_t sample) const;
  /// Of all pictures and masks held, in 1e6 bytes.
  double megabytes() const { return static_cast<double>(bytes_) / 1e6; }

 private:
  struct Place {
    int32_t block = -1;
    int32_t row = 0;
  };
  struct Block {
    PixelKind kind;
    at::Tensor pixels;
    at::Tensor masks;
  };
  const Block& block_of(int64_t sample) const;

  std::vector<Place> places_;  // by sample
  std::vector<Block> blocks_;
  int64_t bytes_ = 0;
  MemoryDraw memory_{"data.loader.cache: device", "set data.loader.cache=none"};
};

/// Row `row` of raw pictures [m, H, W, C] of this kind, or of masks [m, H, W].
RawPicture raw_row(const at::Tensor& pixels, const PixelKind& kind, int64_t row);

/// Bytes of one cached sample: its picture, and its mask if there are masks.
int64_t kept_bytes(const PixelKind& kind, const ImageOptions& size, bool masks);

}  // namespace dtrain
