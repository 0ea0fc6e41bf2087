// AVX-512: 32 registers, of which a tile of a product takes 24.
#include <immintrin.h>

#include "dtrain/model/conv_kernels.inl"
#include "dtrain/model/row_kernels.inl"
#include "dtrain/model/winograd_kernels.inl"

namespace dtrain {

namespace {
struct StreamOfAvx512 {
  static void store(float* p, __m512 v) { _mm512_stream_ps(p, v); }
  static void finish() { _mm_sfence(); }
};
}  // namespace

static constexpr RowKernels<float> kRowsOfAvx512 = Loops<float, 64, 12, StreamOfAvx512>::all("avx512");
const RowKernels<float>* const kAvx512Rows = &kRowsOfAvx512;
static constexpr ConvKernels<float> kConvOfAvx512 = ConvLoops<float, 64, 8, 2>::all();
const ConvKernels<float>* const kAvx512Conv = &kConvOfAvx512;
static constexpr WinogradKernels<float> kWinogradOfAvx512 = WinogradLoops<float, 64>::all(true);
const WinogradKernels<float>* const kAvx512Winograd = &kWinogradOfAvx512;

}  // namespace dtrain
