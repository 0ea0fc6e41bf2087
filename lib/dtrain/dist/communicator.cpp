#include "dtrain/dist/communicator.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {

Range slice_of_rank(int64_t length, int ranks, int rank) {
  constexpr int64_t kAlignment = 4;  // elements: 16 bytes of float32, as NCCL's wide loads want them
  const int64_t whole = (length + ranks * kAlignment - 1) / (ranks * kAlignment) * kAlignment;
  return {std::min(length, whole * rank), std::min(length, whole * (rank + 1))};
}

void Communicator::gather_slices(at::Tensor& tensor) {
  const Range mine = slice_of_rank(tensor.numel(), size(), rank());
  std::vector<Message> sends;
  std::vector<Message> receives;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const Range theirs = slice_of_rank(tensor.numel(), size(), peer);
    if (mine.size() > 0) sends.push_back({peer, tensor.slice(0, mine.begin, mine.end)});
    if (theirs.size() > 0) receives.push_back({peer, tensor.slice(0, theirs.begin, theirs.end)});
  }
  exchange(sends, receives);
}

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
