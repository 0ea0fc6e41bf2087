#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dtrain/base/trace.hpp"
#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

// How the loader makes one batch; loader.cpp decides which thread makes which sample when.

/// A batch in the making. Threads take its samples one by one and write into its memory; nothing else touches a claimed
/// place. A slot lives as long as a thread works on it, even when start() has dropped it.
struct BatchSlot {
  Batch batch;
  int64_t number = 0;  // of the batch, since start()
  std::optional<int64_t> augment_epoch;
  bool may_replace = false;
  std::vector<int64_t> repeats;         // BatchRequest::repeats
  std::vector<size_t> places;           // of the samples to be made, in the batch
  std::vector<int64_t> foreign;         // BatchRequest::foreign
  std::map<size_t, Replaced> replaced;  // by place
  int64_t* class_indices = nullptr;     // multiclass: the targets' memory
  float* labels = nullptr;              // multilabel
  float* images = nullptr;
  float* masks = nullptr;    // segmentation: the targets' memory
  std::byte* raw = nullptr;  // or the memory of raw pictures
  uint8_t* raw_masks = nullptr;
  PixelKind needed;    // by the raw pictures made so far: if the memory cannot hold it, the batch is made again
  size_t claimed = 0;  // of `places`, then of `foreign`
  size_t finished = 0;
  std::exception_ptr error;  // of the first sample, in batch order, that failed
  size_t error_number = std::numeric_limits<size_t>::max();

  size_t size() const { return places.size() + foreign.size(); }
  /// Number `n` of what is to be made.
  int64_t sample(size_t n) const { return n < places.size() ? batch.samples[places[n]] : foreign[n - places.size()]; }
  bool ready() const { return finished == size(); }
};

/// What does not change while the loader lives.
struct BatchRecipe {
  const Dataset& dataset;
  DataOptions options;
  uint64_t seed;
  bool channels_last;
  Delivery delivery;
  int64_t classes;
  int64_t plane;  // pixels of one channel of what the network sees
};

/// What making samples cost, summed over them.
struct SampleCost {
  int64_t bytes = 0;
  double read_s = 0;
  double decode_s = 0;
  PixelKind needed = {};                            // by a raw picture
  std::optional<Replaced> replaced = std::nullopt;  // of one sample
};

/// Memory for a batch, whose samples are to be made. `kind`: of the pictures, if they stay raw.
std::shared_ptr<BatchSlot> make_slot(const BatchRecipe& recipe, const PixelKind& kind, BatchRequest request);

/// Makes number `number` of what the slot is to have made: a sample of its own, read, decoded and transformed into its
/// place, or a foreign one. Runs no LibTorch operator; several threads at once may make samples of one slot. Throws
/// like read_sample_files(), decode_picture() and decode_mask().
SampleCost make_sample(const BatchRecipe& recipe, const BatchSlot& slot, size_t number, Trace& trace);

/// Gives place `place` of the targets the class or labels of sample `index`.
void write_label(const BatchRecipe& recipe, const BatchSlot& slot, size_t place, int64_t index);

}  // namespace dtrain
