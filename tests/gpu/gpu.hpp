#pragma once
#include <ATen/ATen.h>

#include "dtrain/base/error.hpp"
#include "dtrain/device/device.hpp"
#include "support/catch.hpp"

namespace dtrain::test {

/// The first GPU; none if there is none, and then the test has been counted as skipped.
inline std::optional<Device> first_gpu() {
  if (const std::string reason = no_gpu_reason(ask_gpu_driver()); !reason.empty()) {
    skip(reason.c_str());
    return std::nullopt;
  }
  try {
    GpuModule& module = load_gpu_module();
    set_deterministic(true);  // before cuBLAS starts, whatever test is the first
    module.use_device(0);
    return Device{c10::Device(c10::kCUDA, 0), &module.math(), &module};
  } catch (const MissingError& error) {
    skip(error.what());
    return std::nullopt;
  }
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.cpu().contiguous().view(at::kInt), b.cpu().contiguous().view(at::kInt));
}

}  // namespace dtrain::test
