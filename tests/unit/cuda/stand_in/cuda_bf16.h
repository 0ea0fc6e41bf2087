#pragma once
#include "support/sixteen_bits.hpp"

struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 value) { return dtrain::test::bfloat16_value(value.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {dtrain::test::nearest_bfloat16(value)}; }
