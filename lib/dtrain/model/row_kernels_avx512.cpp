// AVX-512: 32 registers, of which a tile of a product takes 24.
#include "dtrain/model/row_kernels.inl"

namespace dtrain {

static constexpr RowKernels<float> kRowsOfAvx512 = Loops<float, 64, 12>::all("avx512");
const RowKernels<float>* const kAvx512Rows = &kRowsOfAvx512;

}  // namespace dtrain
