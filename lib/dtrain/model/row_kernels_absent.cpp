// Where the processor is no x86: the compiler's own vectors have to do (row_kernels_plain.cpp).
#include "dtrain/model/conv_kernels.hpp"
#include "dtrain/model/row_kernels.hpp"
#include "dtrain/model/winograd_kernels.hpp"

namespace dtrain {

const RowKernels<float>* const kAvx2Rows = nullptr;
const RowKernels<float>* const kAvx512Rows = nullptr;
const ConvKernels<float>* const kAvx2Conv = nullptr;
const ConvKernels<float>* const kAvx512Conv = nullptr;
const WinogradKernels<float>* const kAvx2Winograd = nullptr;
const WinogradKernels<float>* const kAvx512Winograd = nullptr;

}  // namespace dtrain
