#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/data/batch_source.hpp"
#include "dtrain/data/dataset.hpp"
#include "dtrain/data/picture_cache.hpp"

namespace dtrain {

/// How a loader hands pictures over.
struct Delivery {
  bool pinned = false;  ///< in memory from which a GPU copies at full speed and without waiting
  /// Batch::raw: decoded and resized alone, as bytes where that loses nothing. Flips and quarter turns can be left
  /// over, no other augmentation (pixel_augmentations). Channels-last alone.
  bool raw = false;
  /// With `raw`: pictures it holds are not made again. It outlives the loader. Null: none.
  const PictureCache* cache = nullptr;
};

/// From files to batches, on threads of its own: decode, resize, augment, normalise, straight into the batch's memory.
/// What a batch holds depends on the request alone, never on threads or timing: augmentation is keyed by
/// (seed, epoch, sample id). At most `prefetch` batches beyond the one in use are held.
///
/// `dataset` and `trace` must outlive the loader; the options are copied. One thread calls start() and next(). The
/// loader's threads run no LibTorch operator, so they start no threads of LibTorch's own.
class Loader final : public BatchSource {
 public:
  /// `format`: Contiguous or ChannelsLast, of the images. options.loader.threads 0 takes every core: a caller that
  /// computes meanwhile sets it by loader_threads(). `trace` gets the spans "read" and "decode" of every sample, with
  /// the number of its batch since start(), in the lanes "loader 0", "loader 1" …
  Loader(const Dataset& dataset, const DataOptions& options, uint64_t seed, at::MemoryFormat format, Trace& trace,
         const Delivery& delivery = {});
  ~Loader() override;  ///< stops and joins the threads

  void start(std::vector<BatchRequest> requests) override;
  /// Rethrows what a thread met (DataError naming the file) at the batch it belongs to, of several the first in the
  /// batch's order; the batch after it can still be had.
  std::optional<Batch> next() override;
  bool ready() const override;
  Figures figures() const override;

  int threads() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// LoaderOptions::threads resolved: with 0, of the `cores` this process may count on those that do not compute
/// (`compute_threads`), at least 1.
int loader_threads(const LoaderOptions& options, int64_t compute_threads, int64_t cores);

}  // namespace dtrain
