#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "dtrain/model/options.hpp"

namespace dtrain {

/// While it lives, the operators that the calling thread runs on tensors of `device` compute as `precision` asks: with
/// bf16 and fp16 LibTorch's autocast takes convolutions and matrix products of float32 operands in that type and passes
/// their results on in it; with fp32 and tf32 autocast is off. The end of the scope restores what was before, also on
/// exceptions. Scopes nest. Leave it before backward, which takes each operator's type from its forward pass.
/// Weights are rounded again in each pass, without autocast's cache: a pass uses each weight once, so that the cache
/// would save nothing, and a cache that all threads share could outlive an update.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device, Precision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  bool cache_before_;
  c10::ScalarType type_before_;
};

/// The type in which autocast computes on `device` in the calling thread; nothing where it is off.
std::optional<c10::ScalarType> autocast_type(c10::DeviceType device);

/// For the whole process: with tf32 a GPU rounds the operands of float32 convolutions and matrix products to TF32 (10
/// bits of mantissa), with every other precision it does not, and cuBLAS adds up 16-bit products in float32 throughout,
/// also where it divides a sum. LibTorch's own defaults let convolutions round and such sums be of 16 bits. A CPU
/// computes in float32 either way.
void set_product_precision(Precision precision);

}  // namespace dtrain
