#pragma once
#include <cstdint>

namespace dtrain {

/// sum[x] = Σ weights[t] × rows[t·stride + x] over `taps`, `length` sums: four taps at a time, so that the sums are
/// loaded and stored less often. To be inlined where vector code is made for each processor (dtrain_vector_code); the
/// order of additions, and so the bits, are the same for every width. `sum` overlaps none of the rows.
template <typename Value>
[[gnu::always_inline]] inline void add_rows(const Value* rows, int64_t stride, const float* weights, int64_t taps,
                                            int64_t length, float* __restrict sum) {
  for (int64_t x = 0; x < length; ++x) sum[x] = 0;
  int64_t t = 0;
  for (; t + 4 <= taps; t += 4) {
    const Value* __restrict a = rows + t * stride;
    const Value* __restrict b = a + stride;
    const Value* __restrict c = b + stride;
    const Value* __restrict d = c + stride;
    const float wa = weights[t], wb = weights[t + 1], wc = weights[t + 2], wd = weights[t + 3];
    for (int64_t x = 0; x < length; ++x)
      sum[x] += (wa * static_cast<float>(a[x]) + wb * static_cast<float>(b[x])) +
                (wc * static_cast<float>(c[x]) + wd * static_cast<float>(d[x]));
  }
  for (; t < taps; ++t) {
    const Value* __restrict a = rows + t * stride;
    const float wa = weights[t];
    for (int64_t x = 0; x < length; ++x) sum[x] += wa * static_cast<float>(a[x]);
  }
}

}  // namespace dtrain
