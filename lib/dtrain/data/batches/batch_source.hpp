#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/data/pixels/raw_pictures.hpp"

namespace dtrain {

/// What DeviceBatches turns into a batch's images, and segmentation's targets, on the device.
struct RawPictures {
  PictureForm form;
  int64_t classes = 0;             ///< planes of a mask
  PixelKind kind;                  ///< of `pixels`
  at::Tensor pixels;               ///< [m, H, W, kind.channels], uint8 or float32: of the samples that had to be made
  at::Tensor masks;                ///< segmentation: uint8 [m, H, W]
  std::vector<size_t> places;      ///< of those m in the batch, ascending; a cache holds the others
  std::vector<PictureWalk> walks;  ///< of all samples: this epoch's augmentation
};

/// A sample that cannot be decoded, and the one in its place.
struct Replaced {
  int64_t sample = 0;      ///< the bad one's index in Dataset::samples
  int64_t substitute = 0;  ///< the other's, which gives picture, mask and label
  std::string reason;      ///< the sentence of its DataError: file, record and offset
};

/// Samples that go through the network together.
struct Batch {
  at::Tensor images;             ///< float32 [n, C, H, W], normalised; strides channels-last if asked for
  at::Tensor targets;            ///< multilabel float32 [n, K], NaN = unknown; multiclass int64 [n]; segmentation
                                 ///< float32 [n, K, H, W] of 0 and 1, contiguous; K = dataset.classes.size()
  std::vector<int64_t> samples;  ///< indices into Dataset::samples, as asked for
  /// Instead of `images`, and of `targets` for segmentation, if the loader leaves pictures raw.
  std::optional<RawPictures> raw = std::nullopt;
  std::vector<Replaced> replaced = {};  ///< of `samples`, in their order
};

/// One batch to be made.
struct BatchRequest {
  std::vector<int64_t> samples;
  std::optional<int64_t> augment_epoch;  ///< keys the augmentation; nothing: no augmentation
  bool may_replace = false;              ///< others take the places of samples that cannot be decoded
  /// For each of `samples` how often this epoch has taken it before, which keys the augmentation; empty: never.
  std::vector<int64_t> repeats = {};
  std::vector<int64_t> foreign = {};  ///< samples of other processes, to be read, decoded and discarded
};

/// Where training and evaluation get their batches: the loader, or the same batches again and again to measure a step
/// without it. One thread calls start() and next().
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Begins to make these batches, in this order; batches not yet taken from an earlier start are dropped.
  virtual void start(std::vector<BatchRequest> requests) = 0;
  /// The next batch, or nothing after the last. Waits for it.
  virtual std::optional<Batch> next() = 0;
  /// True when next() would return at once.
  virtual bool ready() const = 0;

  /// Since start(), of samples that are made:
  struct Figures {
    double wait_s = 0;       ///< that next() waited
    double queue_fill = 0;   ///< batches ready each time next() was called ÷ prefetch (mean, 0…1)
    int64_t bytes_read = 0;  ///< from files
    double read_s = 0;       ///< reading them, summed over the threads
    double decode_s = 0;     ///< everything else: decoding, resizing, augmenting, normalising; summed likewise
  };
  virtual Figures figures() const = 0;
};

/// Gives the pictures of the first batch of each size for every later batch of that size, at no cost. `source` makes
/// that first batch and outlives this.
class RepeatedBatches final : public BatchSource {
 public:
  explicit RepeatedBatches(BatchSource& source) : source_(source) {}
  void start(std::vector<BatchRequest> requests) override;
  std::optional<Batch> next() override;
  bool ready() const override { return true; }
  Figures figures() const override { return {}; }

 private:
  BatchSource& source_;
  std::vector<Batch> made_;
  std::vector<BatchRequest> requests_;
  size_t next_ = 0;
};

}  // namespace dtrain
