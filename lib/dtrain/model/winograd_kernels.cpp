#include "dtrain/model/winograd_kernels.hpp"

namespace dtrain {

template <>
const WinogradKernels<float>& winograd_kernels<float>() {
  static const WinogradKernels<float>& chosen = []() -> const WinogradKernels<float>& {
    const RowKernels<float>* const rows = &row_kernels<float>();
    if (rows == kAvx512Rows) return *kAvx512Winograd;
    return rows == kAvx2Rows ? *kAvx2Winograd : kPlainWinograd;
  }();
  return chosen;
}

template <>
const WinogradKernels<double>& winograd_kernels<double>() {
  return kPlainWinogradDouble;
}

}  // namespace dtrain
