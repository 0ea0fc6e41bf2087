#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/host_gpu/graphs.hpp"

namespace dtrain::test {

/// The memory of a tensor of the host's GPU by address alone: as a kernel sees it, it does not keep the memory.
struct Bare {
  explicit Bare(const at::Tensor& tensor);
  at::Tensor on_host() const;  ///< a tensor of the CPU on it

  void* data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType type;
};

/// From the tensor's first byte to its last; nothing for one of the CPU.
std::vector<Access> access(const at::Tensor& tensor, bool writes);

/// An operator's call as a graph does it again: by addresses, from copies on the host, as the first time.
class RecordedCall {
 public:
  using Work = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& on_host)>;

  explicit RecordedCall(std::string name) : name_(std::move(name)) {}

  /// One more tensor that `work` is given, which may be undefined or one of the host; its number. `changes`: in place.
  size_t reads(const at::Tensor& tensor, bool changes = false);
  /// Where one more of the tensors goes that `work` returns; an undefined one nowhere.
  void returns(const at::Tensor& tensor);

  void note(Recording& recording, Work work) &&;

 private:
  struct Given {
    std::optional<Bare> of_device;
    at::Tensor of_host;
    bool changes;
  };
  void touch(const at::Tensor& tensor, bool writes);
  static void run(const std::vector<Given>& given, const std::vector<std::optional<Bare>>& results, const Work& work);

  std::string name_;
  std::vector<Given> given_{};
  std::vector<std::optional<Bare>> results_{};
  std::vector<Access> accesses_{};
};

/// Notes the call of an operator of LibTorch: with these arguments, after which its results lie on the stack.
void note_call(Recording& recording, const c10::OperatorHandle& op, const torch::jit::Stack& arguments,
               const torch::jit::Stack& stack);

}  // namespace dtrain::test
