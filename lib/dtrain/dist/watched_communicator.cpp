#include "dtrain/dist/watched_communicator.hpp"

#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {
namespace {

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> inner, Watchdog& watchdog)
      : inner_(std::move(inner)), watchdog_(watchdog) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void limit_waits(double seconds) override { inner_->limit_waits(seconds); }
  void require_healthy() override { inner_->require_healthy(); }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    const Watchdog::Wait wait(watchdog_);
    inner_->exchange(sends, receives);
  }
  void all_reduce(at::Tensor& tensor) override {
    const Watchdog::Wait wait(watchdog_);
    inner_->all_reduce(tensor);
  }
  bool rings() const override { return inner_->rings(); }
  std::string all_reduce_transport() const override { return inner_->all_reduce_transport(); }
  void gather_slices(at::Tensor& tensor) override {
    const Watchdog::Wait wait(watchdog_);
    inner_->gather_slices(tensor);
  }
  HostMemory share(int64_t numel, c10::Device device) override {
    const Watchdog::Wait wait(watchdog_);
    return inner_->share(numel, device);
  }
  std::unique_ptr<Communicator> duplicate() override {
    const Watchdog::Wait wait(watchdog_);
    return inner_->duplicate();
  }

 private:
  std::unique_ptr<Communicator> inner_;
  Watchdog& watchdog_;
};

}  // namespace

std::unique_ptr<Communicator> with_waits_noted(std::unique_ptr<Communicator> comm, Watchdog& watchdog) {
  return std::make_unique<WatchedCommunicator>(std::move(comm), watchdog);
}

}  // namespace dtrain
