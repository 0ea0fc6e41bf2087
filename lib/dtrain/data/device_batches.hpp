#pragma once
#include <exception>
#include <optional>
#include <vector>

#include "dtrain/data/batch_source.hpp"
#include "dtrain/device/side_stream.hpp"

namespace dtrain {

/// Brings batches to a device, one step ahead: while the device works on one batch, the next is copied there on a
/// stream of its own, as soon as it is made. On a CPU the batches are handed through. `source` makes them, best in
/// pinned memory (Loader), and outlives this.
class DeviceBatches final : public BatchSource {
 public:
  DeviceBatches(BatchSource& source, c10::Device device);

  void start(std::vector<BatchRequest> requests) override;
  std::optional<Batch> next() override;
  bool ready() const override { return ahead_.has_value() || failure_ != nullptr || source_.ready(); }
  Figures figures() const override { return source_.figures(); }

 private:
  Batch copied(Batch batch);

  BatchSource& source_;
  c10::Device device_;
  SideStream side_;
  std::optional<Batch> ahead_;  // on its way to the device
  std::exception_ptr failure_;  // of the batch that would be on its way
};

}  // namespace dtrain
