#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace dtrain::test {

/// The value of a bfloat16, and the one nearest to a float, ties to even, as on a GPU.
inline float bfloat16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16U); }
inline uint16_t nearest_bfloat16(float value) {
  if (std::isnan(value)) return 0x7FFF;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

/// The same of a float16.
inline float float16_value(uint16_t bits) {
  const uint32_t exponent = bits >> 10U & 31U, fraction = bits & 0x3FFU;
  float value = 0;
  if (exponent == 31)
    value = fraction == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    value = std::ldexp(static_cast<float>(fraction), -24);
  else
    value = std::ldexp(static_cast<float>(fraction + 0x400U), static_cast<int>(exponent) - 25);
  return (bits & 0x8000U) != 0 ? -value : value;
}
inline uint16_t nearest_float16(float value) {
  constexpr float kLeastNormal = 0x1p-14F, kBeyond = 65520;  // halfway between the largest and what would follow it
  if (std::isnan(value)) return 0x7FFF;
  const auto sign = static_cast<uint32_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::abs(value);
  if (size >= kBeyond) return static_cast<uint16_t>(sign | 0x7C00U);
  if (size < kLeastNormal) return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(size * 0x1p24F)));
  const auto bits = std::bit_cast<uint32_t>(size);
  const uint32_t rounded = (bits + 0xFFFU + (bits >> 13U & 1U)) >> 13U;
  return static_cast<uint16_t>(sign | (rounded - (112U << 10U)));
}

}  // namespace dtrain::test
