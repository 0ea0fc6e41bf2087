#include "dtrain/model/precision.hpp"

#include <ATen/Context.h>

#include "dtrain/model/autocast.hpp"

namespace dtrain {

AutocastScope::AutocastScope(c10::DeviceType device, Precision precision)
    : device_(device),
      enabled_before_(at::autocast::is_autocast_enabled(device)),
      cache_before_(at::autocast::is_autocast_cache_enabled()),
      type_before_(at::autocast::get_autocast_dtype(device)) {
  const bool reduced = precision == Precision::bf16 || precision == Precision::fp16;
  if (reduced) at::autocast::set_autocast_dtype(device, precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_enabled(device, reduced);
}

AutocastScope::~AutocastScope() {
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

std::optional<c10::ScalarType> autocast_type(c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

void set_product_precision(Precision precision) {
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::tf32);
  at::globalContext().setAllowTF32CuDNN(precision == Precision::tf32);
  at::globalContext().setAllowFP16ReductionCuBLAS(false);
  at::globalContext().setAllowBF16ReductionCuBLAS(false);
}

}  // namespace dtrain
