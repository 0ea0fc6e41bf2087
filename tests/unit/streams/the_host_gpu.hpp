#pragma once
#include <c10/core/TensorOptions.h>

#include <string>
#include <vector>

#include "support/host_gpu/host_gpu.hpp"
#include "support/host_gpu/order.hpp"

namespace dtrain::test {

/// This process's GPU of host memory, made by the first call.
inline const Device& the_host_gpu() {
  static const Device gpu = make_host_gpu(11, 100);
  return gpu;
}

inline at::TensorOptions floats() { return at::TensorOptions(at::kFloat).device(the_host_gpu().place); }

inline std::vector<std::string> faults() { return WorkOrder::all().take_faults(); }

}  // namespace dtrain::test
