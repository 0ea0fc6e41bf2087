#include "dtrain/data/batches/device_batches.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace {

// A table of `rows` in the device's memory. LibTorch keeps the pinned copy until it has been read.
at::Tensor on_device(const std::vector<RawPicture>& rows, c10::Device device) {
  const auto options = at::TensorOptions(at::kByte).pinned_memory(!device.is_cpu());
  const at::Tensor table = at::empty({static_cast<int64_t>(rows.size() * sizeof(RawPicture))}, options);
  std::memcpy(table.mutable_data_ptr(), rows.data(), rows.size() * sizeof(RawPicture));
  return table.to(device, /*non_blocking=*/true);
}

}  // namespace

DeviceBatches::DeviceBatches(BatchSource& source, const Device& device, PictureCache* cache)
    : source_(source), device_(device), cache_(cache), side_(device.place) {}

void DeviceBatches::start(std::vector<BatchRequest> requests) {
  ahead_.reset();
  failure_ = nullptr;
  source_.start(std::move(requests));
}

std::optional<Batch> DeviceBatches::next() {
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  std::optional<Batch> batch = std::exchange(ahead_, std::nullopt);
  if (!batch) {
    batch = source_.next();
    if (batch) batch = brought(std::move(*batch));
  }
  if (device_.place.is_cpu()) return batch;
  side_.join();  // the network's work on the batch must come after its copy
  if (batch) {
    side_.lend_to_current(batch->images);
    side_.lend_to_current(batch->targets);
  }
  if (source_.ready()) {
    try {
      if (auto following = source_.next()) ahead_ = brought(std::move(*following));
    } catch (...) {
      failure_ = std::current_exception();  // thrown when its batch is asked for
    }
  }
  return batch;
}

// LibTorch keeps pinned memory until its copies are done, and device memory until all work issued to the stream it was
// allocated on is done. What the cache keeps is only read on that stream.
Batch DeviceBatches::brought(Batch batch) {
  SideStream::Scope scope;
  side_.enter(nullptr, scope);
  const auto to_device = [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device_.place, /*non_blocking=*/true);
  };
  to_device(batch.images);
  to_device(batch.targets);
  if (!batch.raw) return batch;
  to_device(batch.raw->pixels);
  to_device(batch.raw->masks);
  finish(batch);
  batch.raw.reset();
  return batch;
}

void DeviceBatches::finish(Batch& batch) const {
  const RawPictures& raw = *batch.raw;
  const bool masks = raw.masks.defined();
  if (cache_ != nullptr) cache_->keep(batch.samples, raw);
  check(cache_ != nullptr || raw.places.size() == batch.samples.size(), "without a cache a batch has all its pictures");
  const size_t count = batch.samples.size();
  std::vector<RawPicture> rows;  // the pictures, then the masks
  for (size_t i = 0; i < count; ++i)
    rows.push_back(cache_ != nullptr ? cache_->picture(batch.samples[i])
                                     : raw_row(raw.pixels, raw.kind, static_cast<int64_t>(i)));
  for (size_t i = 0; i < count && masks; ++i)
    rows.push_back(cache_ != nullptr ? cache_->mask(batch.samples[i])
                                     : raw_row(raw.masks, {}, static_cast<int64_t>(i)));
  for (size_t i = 0; i < rows.size(); ++i) rows[i].walk = raw.walks[i % count];
  const at::Tensor table = on_device(rows, device_.place);
  const auto* first = static_cast<const RawPicture*>(table.const_data_ptr());
  const auto n = static_cast<int64_t>(count);
  const auto floats = at::TensorOptions(at::kFloat).device(device_.place);
  batch.images = at::empty({n, raw.form.channels, raw.form.height, raw.form.width},
                           floats.memory_format(at::MemoryFormat::ChannelsLast));
  device_.math->finish_pictures(raw.form, first, n, batch.images.mutable_data_ptr<float>());
  if (!masks) return;
  batch.targets = at::empty({n, raw.classes, raw.form.height, raw.form.width}, floats);
  device_.math->finish_masks(raw.form, first + n, n, raw.classes, batch.targets.mutable_data_ptr<float>());
}

}  // namespace dtrain
