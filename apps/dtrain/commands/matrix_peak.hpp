#pragma once
#include <c10/core/Device.h>

#include <cstdint>

#include "dtrain/model/options.hpp"

namespace dtrain {

/// Speed of matrix products of this process on `device`, in the job's precision, while others work too: the best of
/// `products` of side × side, a multiple of 32, in GFLOP/s. On a CPU by both libraries that LibTorch brings, of which
/// MKL uses half of some processors' vectors.
double matrix_peak(c10::Device device, Precision precision, int64_t side, int products = 8);

}  // namespace dtrain
