#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "dtrain/device/norm_math.hpp"

// NormMath's kernels, as those of kernels.hpp. `parts`: memory of the device for norm_parts() floats.

namespace dtrain::kernels {

/// Floats that the sums of a shape need between their two kernels.
inline int64_t norm_parts(const NormShape& shape) {
  return 2 * shape.columns * ((shape.rows + NormMath::kPiece - 1) / NormMath::kPiece);
}

cudaError_t norm_statistics(const NormShape& shape, NormInput x, float* parts, float* mean, float* variance,
                            const NormRunning& running, cudaStream_t stream);
cudaError_t norm_move(const NormShape& shape, const float* mean, const float* variance, const NormRunning& running,
                      cudaStream_t stream);
cudaError_t norm_normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more, NormOutput y,
                           cudaStream_t stream);
cudaError_t norm_rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm,
                              NormInput result, const NormGradient& d, float* parts, float* d_gamma, float* d_beta,
                              cudaStream_t stream);
cudaError_t norm_centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x,
                             const NormColumns& norm, const float* d_gamma, const float* d_beta, NormOutput dx,
                             cudaStream_t stream);

}  // namespace dtrain::kernels
