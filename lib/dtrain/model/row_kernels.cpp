#include "dtrain/model/row_kernels.hpp"

#include <ATen/Version.h>

#include <string>

namespace dtrain {

template <>
const RowKernels<float>& row_kernels<float>() {
  static const RowKernels<float>& chosen = []() -> const RowKernels<float>& {
    const std::string capability = at::get_cpu_capability();
    if (capability == "AVX512" && kAvx512Rows != nullptr) return *kAvx512Rows;
    if ((capability == "AVX512" || capability == "AVX2") && kAvx2Rows != nullptr) return *kAvx2Rows;
    return kPlainRows;
  }();
  return chosen;
}

template <>
const RowKernels<double>& row_kernels<double>() {
  return kPlainRowsDouble;
}

}  // namespace dtrain
