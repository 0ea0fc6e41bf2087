#include "dtrain/model/conv_kernels.hpp"

namespace dtrain {

template <>
const ConvKernels<float>& conv_kernels<float>() {
  static const ConvKernels<float>& chosen = []() -> const ConvKernels<float>& {
    const RowKernels<float>* const rows = &row_kernels<float>();
    if (rows == kAvx512Rows) return *kAvx512Conv;
    return rows == kAvx2Rows ? *kAvx2Conv : kPlainConv;
  }();
  return chosen;
}

template <>
const ConvKernels<double>& conv_kernels<double>() {
  return kPlainConvDouble;
}

}  // namespace dtrain
