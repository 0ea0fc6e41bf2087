#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/data/dataset.hpp"

namespace dtrain {

/// Samples that go through the network together.
struct Batch {
  at::Tensor images;             ///< float32 [n, C, H, W], normalised; strides channels-last where asked for
  at::Tensor targets;            ///< multilabel float32 [n, K], NaN = unknown; multiclass int64 [n]; segmentation
                                 ///< float32 [n, K, H, W] of 0 and 1, contiguous; K = dataset.classes.size()
  std::vector<int64_t> samples;  ///< indices into Dataset::samples
};

/// One batch to be made: which samples, and the epoch that keys their augmentation (nothing: no augmentation).
struct BatchRequest {
  std::vector<int64_t> samples;
  std::optional<int64_t> augment_epoch;
};

/// From files to batches, on threads of its own: decode, resize, augment, normalise, straight into the batch's memory.
/// What a batch holds depends on the request alone, never on threads or timing: augmentation is keyed by
/// (seed, epoch, sample id). At most `prefetch` batches beyond the one in use are held.
///
/// `dataset` and `trace` must outlive the loader; the options are copied. One thread calls start() and next(). The
/// loader's threads run no LibTorch operator, so they start no threads of LibTorch's own.
class Loader {
 public:
  /// `format`: Contiguous or ChannelsLast, of the images. options.loader.threads 0 takes every core: a caller that
  /// computes meanwhile sets it by loader_threads(). `trace` gets the spans "read" and "decode" of every sample, with
  /// the number of its batch since start(), in the lanes "loader 0", "loader 1" …
  Loader(const Dataset& dataset, const DataOptions& options, uint64_t seed, at::MemoryFormat format, Trace& trace);
  ~Loader();  ///< stops and joins the threads

  /// Begins to make these batches, in this order; batches not yet taken from an earlier start are dropped.
  void start(std::vector<BatchRequest> requests);
  /// The next batch, or nothing after the last. Waits for it. Rethrows what a thread met (DataError naming the file)
  /// at the batch it belongs to, of several the first in the batch's order; the batch after it can still be had.
  std::optional<Batch> next();

  /// Since start(), of samples that are made:
  struct Figures {
    double wait_s = 0;       ///< that next() waited
    double queue_fill = 0;   ///< batches ready each time next() was called ÷ prefetch (mean, 0…1)
    int64_t bytes_read = 0;  ///< from files
    double read_s = 0;       ///< reading them, summed over the threads
    double decode_s = 0;     ///< all else of a sample: decoding, resizing, augmenting, normalising; summed likewise
  };
  Figures figures() const;

  int threads() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// LoaderOptions::threads resolved for this process: with 0, the cores of its affinity mask less `compute_threads`, at
/// least 1.
int loader_threads(const LoaderOptions& options, int64_t compute_threads);

}  // namespace dtrain
