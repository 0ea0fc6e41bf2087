#include "dtrain/dist/communicator.hpp"

#include "dtrain/base/error.hpp"

namespace dtrain {
namespace {

class SerialCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    check(sends.empty() && receives.empty(), "a single rank has nobody to exchange with");
  }
  void all_reduce(at::Tensor&) override {}
  HostMemory share(int64_t numel, c10::Device device) override { return unshared_memory(0, 1, numel, device); }
  std::unique_ptr<Communicator> duplicate() override { return make_serial_communicator(); }
  void limit_waits(double) override {}
};

}  // namespace

std::unique_ptr<Communicator> make_serial_communicator() { return std::make_unique<SerialCommunicator>(); }

}  // namespace dtrain
