#include "dtrain/device/side_stream.hpp"

#include <ATen/ops/record_stream.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace dtrain {

static c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

namespace {

class EventMark final : public DevicePoint {
 public:
  explicit EventMark(const c10::Stream& stream) : event_(stream.device_type()) { event_.record(stream); }
  void hold(const c10::Stream& stream) const override { event_.block(stream); }

 private:
  c10::Event event_;
};

}  // namespace

SideStream::SideStream(c10::Device device) : device_(device) {
  if (!device.is_cpu())
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

Mark SideStream::mark() const { return stream_ ? std::make_shared<EventMark>(current_stream(device_)) : nullptr; }

void SideStream::enter(const Mark& after, Scope& scope) const {
  if (!stream_) return;
  scope.emplace(*stream_);
  if (after) after->hold(*stream_);
}

bool SideStream::idle() const { return !stream_ || stream_->query(); }

void SideStream::join() const {
  if (!stream_) return;
  c10::Event done(device_.type());
  done.record(*stream_);
  done.block(current_stream(device_));
}

void SideStream::lend_to_current(const at::Tensor& tensor) const {
  if (stream_) tensor.record_stream(current_stream(device_));
}

}  // namespace dtrain
