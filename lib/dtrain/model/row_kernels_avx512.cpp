// AVX-512: 32 registers, of which a tile of a product takes 24.
#include "dtrain/model/conv_kernels.inl"
#include "dtrain/model/row_kernels.inl"
#include "dtrain/model/winograd_kernels.inl"

namespace dtrain {

static constexpr RowKernels<float> kRowsOfAvx512 = Loops<float, 64, 12>::all("avx512");
const RowKernels<float>* const kAvx512Rows = &kRowsOfAvx512;
static constexpr ConvKernels<float> kConvOfAvx512 = ConvLoops<float, 64, 8, 2>::all();
const ConvKernels<float>* const kAvx512Conv = &kConvOfAvx512;
static constexpr WinogradKernels<float> kWinogradOfAvx512 = WinogradLoops<float, 64>::all(true);
const WinogradKernels<float>* const kAvx512Winograd = &kWinogradOfAvx512;

}  // namespace dtrain
