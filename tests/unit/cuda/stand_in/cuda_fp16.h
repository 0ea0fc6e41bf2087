#pragma once
#include "support/sixteen_bits.hpp"

struct __half {
  uint16_t bits;
};
inline float __half2float(__half value) { return dtrain::test::float16_value(value.bits); }
inline __half __float2half_rn(float value) { return {dtrain::test::nearest_float16(value)}; }
