#pragma once
#include <exception>
#include <optional>
#include <vector>

#include "dtrain/data/batches/batch_source.hpp"
#include "dtrain/data/batches/picture_cache.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/device/side_stream.hpp"

namespace dtrain {

/// Brings batches to a device, one step ahead: while the device works on one batch, the next is copied there on a
/// stream of its own, as soon as it is made. Raw batches are flipped, turned and normalised there. On a CPU nothing is
/// copied, and finished batches are handed through. `source` makes them, best in pinned memory (Loader).
/// `cache`, if any, is the source's: it receives the pictures that the source had to make, and provides the others.
/// Source and cache outlive this.
class DeviceBatches final : public BatchSource {
 public:
  DeviceBatches(BatchSource& source, const Device& device, PictureCache* cache = nullptr);

  void start(std::vector<BatchRequest> requests) override;
  std::optional<Batch> next() override;
  bool ready() const override { return ahead_.has_value() || failure_ != nullptr || source_.ready(); }
  Figures figures() const override { return source_.figures(); }

 private:
  Batch brought(Batch batch);
  void finish(Batch& batch) const;

  BatchSource& source_;
  Device device_;
  PictureCache* cache_;
  SideStream side_;
  std::optional<Batch> ahead_;  // on its way to the device
  std::exception_ptr failure_;  // of the batch that would be on its way
};

}  // namespace dtrain
