#pragma once
#include <c10/core/Device.h>

#include <cstdint>

#include "dtrain/model/options.hpp"

namespace dtrain {

/// Speed of matrix products of this process on `device`, in the job's precision, while others work too: the best of
/// `products` of side × side, a multiple of 32, in GFLOP/s. On a CPU by both libraries that LibTorch brings, of which
/// MKL uses half of some processors' vectors.
double matrix_peak(c10::Device device, Precision precision, int64_t side, int products = 8);

/// The side that takes the device long enough to be at its peak: 1024 on a CPU, up to 8192 on a GPU.
int64_t matrix_peak_side(c10::Device device, Precision precision);

}  // namespace dtrain
