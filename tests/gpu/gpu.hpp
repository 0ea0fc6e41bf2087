#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>

#include <cstdint>
#include <optional>
#include <string>

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
    return Device{module.use_device(0), &module.math(), &module};
  } catch (const MissingError& error) {
    skip(error.what());
    return std::nullopt;
  }
}

/// A square matrix whose product keeps a GPU busy for a while; the tests' GPU of host memory pauses by itself.
inline at::Tensor heavy_matrix(const Device& gpu) {
  const int64_t side = gpu.place.is_privateuseone() ? 32 : 4096;
  return at::randn({side, side}, at::TensorOptions(at::kFloat).device(gpu.place));
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.cpu().contiguous().view(at::kInt), b.cpu().contiguous().view(at::kInt));
}

}  // namespace dtrain::test
