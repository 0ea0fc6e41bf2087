// AVX2 and FMA: 16 registers, of which a tile of a product takes 12.
#include <immintrin.h>

#include "dtrain/model/conv_kernels.inl"
#include "dtrain/model/row_kernels.inl"
#include "dtrain/model/winograd_kernels.inl"

namespace dtrain {

namespace {
struct StreamOfAvx2 {
  static void store(float* p, __m256 v) { _mm256_stream_ps(p, v); }
  static void finish() { _mm_sfence(); }
};
}  // namespace

static constexpr RowKernels<float> kRowsOfAvx2 = Loops<float, 32, 6, StreamOfAvx2>::all("avx2");
const RowKernels<float>* const kAvx2Rows = &kRowsOfAvx2;
static constexpr ConvKernels<float> kConvOfAvx2 = ConvLoops<float, 32, 4, 3>::all();
const ConvKernels<float>* const kAvx2Conv = &kConvOfAvx2;
static constexpr WinogradKernels<float> kWinogradOfAvx2 = WinogradLoops<float, 32>::all(true);
const WinogradKernels<float>* const kAvx2Winograd = &kWinogradOfAvx2;

}  // namespace dtrain
