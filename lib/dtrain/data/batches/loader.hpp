#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/data/batches/picture_cache.hpp"
#include "dtrain/data/batches/shared_pictures.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// How a loader delivers pictures.
struct Delivery {
  bool pinned = false;  ///< in memory from which a GPU copies at full speed and without waiting
  /// Batch::raw: only decoded and resized, as bytes if that loses nothing. Flips and quarter turns can be left for
  /// later, but no other augmentation (pixel_augmentations). Only channels-last.
  bool raw = false;
  /// With `raw`: pictures in it are not made again. It outlives the loader. Null: none.
  const PictureCache* cache = nullptr;
  /// data.loader.cache: ram. Pictures in it are neither read nor decoded again; others are put there. It
  /// outlives the loader. Null: none.
  SharedPictures* shared = nullptr;
  /// The samples that may replace bad ones, if a request allows it: the training part. It outlives the
  /// loader, and is not empty.
  const std::vector<int64_t>* substitutes = nullptr;
  /// Above 0: for each sample sleep this many seconds instead of reading and decoding it (`dtrain bench input`).
  double load_s = 0;
  /// options.loader.threads is the starting value: the threads are tuned (ThreadTuner) during requests with an
  /// augment_epoch, which are those of training.
  bool tune_threads = false;
};

/// From files to batches, on its own threads: decode, resize, augment, normalise, directly into the batch's memory.
/// What a batch holds depends on the request alone, never on threads or timing: augmentation is keyed by
/// (seed, epoch, sample id), also that of a substitute, by the id of the sample whose place it takes. At most
/// `prefetch` batches beyond the one in use are kept; with pipeline sequential none, and next() makes its batch itself.
///
/// `dataset` and `trace` must outlive the loader; the options are copied. One thread calls start() and next(). The
/// loader's threads run no LibTorch operator, so they start no threads of LibTorch's own.
class Loader final : public BatchSource {
 public:
  /// `format`: Contiguous or ChannelsLast, of the images. options.loader.threads 0 uses every core: a caller that
  /// computes meanwhile sets it with loader_threads(). `trace` gets the spans "read", "decode" and "transform" of every
  /// sample, with the number of its batch since start(), in the lanes "loader 0", "loader 1" …
  Loader(const Dataset& dataset, const DataOptions& options, uint64_t seed, at::MemoryFormat format, Trace& trace,
         const Delivery& delivery = {});
  ~Loader() override;  ///< stops and joins the threads

  void start(std::vector<BatchRequest> requests) override;
  /// Rethrows a thread's error (DataError naming the file) at the batch it belongs to, the first in the batch's order
  /// if there are several; the next batch is still available.
  std::optional<Batch> next() override;
  bool ready() const override;
  Figures figures() const override;

  /// Threads that may work now; 1 with pipeline sequential.
  int threads() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// LoaderOptions::threads resolved: 0 means the `cores` this process can use minus those that compute
/// (`compute_threads`), at least 1.
int loader_threads(const LoaderOptions& options, int64_t compute_threads, int64_t cores);

}  // namespace dtrain
