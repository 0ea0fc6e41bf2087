#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "dtrain/device/picture_rules.hpp"
#include "dtrain/device/update_rules.hpp"

// Launches of the module's kernels: asynchronous on `stream`, pointers to device memory. Each returns what
// cudaGetLastError() says of the launch. Free of LibTorch, so that nvcc is spared its headers, and of
// C++20, for which CMake 3.25 has no flag of CUDA's.

namespace dtrain::kernels {

/// FlatMath::sum, by value to the device.
struct Sum {
  static constexpr int kMostInputs = 512;
  static constexpr int kMostDepth = 16;
  static constexpr int kAdd = -1;  // FlatMath::kAdd
  const float* inputs[kMostInputs];
  int16_t program[2 * kMostInputs];
  int length;  ///< of the program
};

cudaError_t add(float* into, const float* from, int64_t numel, cudaStream_t stream);
/// The sum goes to one output; it may be one of the inputs.
cudaError_t sum(const Sum& sum, float* output, int64_t numel, cudaStream_t stream);
cudaError_t update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, int32_t* not_finite,
                   cudaStream_t stream);
/// FlatMath::measure.
cudaError_t measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums,
                    cudaStream_t stream);
/// Floats that one block adds up for a norm: enough blocks for any GPU, and few enough parts.
inline constexpr int64_t kNormChunk = 16 * 1024;
/// parts[i] = Σx² over values[bounds[2i]] … values[bounds[2i + 1] − 1], one block each.
cudaError_t sums_of_squares(const float* values, const int64_t* bounds, int count, double* parts, cudaStream_t stream);
/// sums[i] = parts[first[i]] + … + parts[first[i + 1] − 1], one block each.
cudaError_t sums_of_parts(const double* parts, const int64_t* first, int count, double* sums, cudaStream_t stream);
/// FlatMath::finish_pictures and finish_masks.
cudaError_t finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out,
                            cudaStream_t stream);
cudaError_t finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes, float* out,
                         cudaStream_t stream);

}  // namespace dtrain::kernels
