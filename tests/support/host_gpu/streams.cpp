#include "support/host_gpu/streams.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <vector>

#include "support/host_gpu/graphs.hpp"
#include "support/nccl/patience.hpp"

namespace dtrain::test {

static thread_local c10::StreamId current_number = 0;

static void require_not_recorded(c10::StreamId number, const char* what) {
  TORCH_CHECK(HostGpuStreams::all().recording(number) == nullptr, "a stream is being recorded, and ", what);
}

struct HostGpuStreams::Impl {
  uint64_t seed = 0;
  int64_t most_pause_us = 0;
  std::atomic<Recording*> recording{nullptr};
  std::mutex mutex;
  std::vector<std::unique_ptr<WorkerStream>> streams;
};

HostGpuStreams::HostGpuStreams() : impl_(std::make_unique<Impl>()) {}

HostGpuStreams& HostGpuStreams::all() {
  static auto* streams = new HostGpuStreams;  // LibTorch may use them until the process ends
  return *streams;
}

void HostGpuStreams::start(uint64_t seed, int64_t most_pause_us) {
  impl_->seed = seed;
  impl_->most_pause_us = most_pause_us;
  make();
}

c10::StreamId HostGpuStreams::make() {
  const std::lock_guard lock(impl_->mutex);
  const auto number = static_cast<c10::StreamId>(impl_->streams.size());
  impl_->streams.push_back(
      std::make_unique<WorkerStream>(impl_->seed + static_cast<uint64_t>(number), impl_->most_pause_us));
  return number;
}

WorkerStream& HostGpuStreams::stream(c10::StreamId number) {
  const std::lock_guard lock(impl_->mutex);
  return *impl_->streams.at(static_cast<size_t>(number));
}

c10::StreamId HostGpuStreams::current() const { return current_number; }
void HostGpuStreams::make_current(c10::StreamId number) { current_number = number; }

StreamMark HostGpuStreams::mark(c10::StreamId number) {
  const WorkerStream& of = stream(number);
  return {&of, of.pushed()};
}

void StreamMark::wait() const {
  Patience patience("a stream of the host's GPU");
  while (!reached()) patience.pause();
}

std::vector<c10::StreamId> HostGpuStreams::catch_up_all() {
  size_t count = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    count = impl_->streams.size();
  }
  std::vector<c10::StreamId> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (const c10::StreamId number : numbers) mark(number).wait();
  return numbers;
}

void HostGpuStreams::record_into(Recording* recording) { impl_->recording = recording; }

Recording* HostGpuStreams::recording(c10::StreamId number) const {
  Recording* const active = impl_->recording;
  return active != nullptr && active->has(number) ? active : nullptr;
}

void HostGpuStreams::require_sound() const {
  TORCH_CHECK(!failed_, "CUDA error: an illegal memory access was encountered");
}

void HostGpuStreams::issue(const std::string& what, const std::vector<Access>& accesses, std::function<void()> work) {
  require_sound();
  if (Recording* into = recording(current())) {
    into->try_out(accesses, work);
    into->note({what, accesses, std::move(work)});
    return;
  }
  WorkOrder::all().issue(current(), what, accesses);
  stream(current()).push(std::move(work));
}

void HostGpuStreams::hold(c10::StreamId number, const StreamMark& mark, const WorkOrder::Clock& until) {
  require_not_recorded(number, "it waits for work that is not");
  WorkOrder::all().hold(number, until);
  stream(number).push([mark] { mark.wait(); });
}

void HostGpuStreams::wait(c10::StreamId number) {
  require_not_recorded(number, "the host waits for it");
  ++costs.waits;
  const WorkOrder::Clock until = WorkOrder::all().reached(number);
  mark(number).wait();
  WorkOrder::all().host_waited(until);
}

namespace {

// What an event is while it lives: what was recorded last.
struct Event {
  StreamMark mark;
  WorkOrder::Clock clock;
  c10::StreamId stream = 0;
  const Recording* recording = nullptr;  // that it is part of
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kHostGpu; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {kHostGpu, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return named(HostGpuStreams::all().current()); }
  c10::Stream getDefaultStream(c10::Device) const override { return named(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return named(HostGpuStreams::all().make()); }
  c10::Stream getNewStream(c10::Device, int) const override { return named(HostGpuStreams::all().make()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = named(HostGpuStreams::all().current());
    HostGpuStreams::all().make_current(stream.id());
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    require_not_recorded(stream.id(), "the host asks for its state");
    const WorkOrder::Clock until = WorkOrder::all().reached(stream.id());
    const bool idle = HostGpuStreams::all().stream(stream.id()).idle();
    if (idle) WorkOrder::all().host_waited(until);
    return idle;
  }
  void synchronizeStream(const c10::Stream& stream) const override { HostGpuStreams::all().wait(stream.id()); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = {HostGpuStreams::all().mark(stream.id()), WorkOrder::all().reached(stream.id()),
                                    stream.id(), HostGpuStreams::all().recording(stream.id())};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const Event& recorded = *static_cast<Event*>(event);
    if (recorded.recording != nullptr) {
      Recording* const active = HostGpuStreams::all().recording(recorded.stream);
      TORCH_CHECK(active == recorded.recording, "an event of work that was recorded is waited for afterwards");
      active->wait(stream.id(), recorded.stream);
      return;
    }
    HostGpuStreams::all().hold(stream.id(), recorded.mark, recorded.clock);
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const Event& recorded = *static_cast<Event*>(event);
    TORCH_CHECK(recorded.recording == nullptr, "the host asks for the state of work that was recorded");
    if (!recorded.mark.reached()) return false;
    WorkOrder::all().host_waited(recorded.clock);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const Event& recorded = *static_cast<Event*>(event);
    TORCH_CHECK(recorded.recording == nullptr, "the host waits for work that was recorded");
    ++HostGpuStreams::all().costs.waits;
    recorded.mark.wait();
    WorkOrder::all().host_waited(recorded.clock);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    lend_host_gpu_memory(data, stream.id());
  }

 private:
  static c10::Stream named(c10::StreamId number) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kHostGpu, 0), number);
  }
};

// What LibTorch asks about a device whose streams it follows and whose pinned memory it uses.
class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator host = at::detail::createCPUGenerator();  // random numbers are drawn by the CPU
    return host;
  }
};

}  // namespace

void register_host_gpu_guard() {
  c10::impl::registerDeviceGuard(kHostGpu, new Guard);  // never destroyed, as LibTorch asks
  c10::register_privateuse1_backend("host_gpu");
  at::RegisterPrivateUse1HooksInterface(new Hooks);
}

}  // namespace dtrain::test
