#include <algorithm>
#include <type_traits>

#include "dtrain/cuda/kernels.hpp"
#include "dtrain/cuda/launch.cuh"

// Compiled with -fmad=false: a product is rounded before it is added, as on the CPU.

namespace dtrain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;  // several waves on any GPU; each thread then takes more than one element

int blocks_for(int64_t numel) { return static_cast<int>(std::min((numel + kThreads - 1) / kThreads, kMostBlocks)); }

__device__ int64_t first_element() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__global__ void add_kernel(float* into, const float* from, int64_t numel) {
  for (int64_t i = first_element(); i < numel; i += stride()) into[i] += from[i];
}

__global__ void sum_kernel(const __grid_constant__ Sum sum, float* output, int64_t numel) {
  for (int64_t i = first_element(); i < numel; i += stride()) {
    float stack[Sum::kMostDepth];
    int top = 0;
    for (int step = 0; step < sum.length; ++step) {
      const int input = sum.program[step];
      if (input == Sum::kAdd) {
        --top;
        stack[top - 1] += stack[top];
      } else {
        stack[top++] = sum.inputs[input][i];
      }
    }
    output[i] = stack[0];
  }
}

template <typename Rule>
__global__ void update_kernel(Rule rule, UpdateSlices slices, int32_t* not_finite) {
  bool finite = true;
  float ratio = 1;
  if constexpr (Rule::kTrust)
    if (slices.sums != nullptr) ratio = trust_ratio(rule, slices.sums[0], slices.sums[1]);
  for (int64_t i = first_element(); i < slices.count; i += stride()) {
    float none = 0;
    float weight = slices.weights[i];
    const float gradient = slices.gradients[i];
    if constexpr (Rule::kTrust) {
      rule(gradient, weight, slices.first[i], Rule::kStates == 1 ? none : slices.second[i], ratio);
    } else if constexpr (Rule::kStates == 0) {
      rule(gradient, weight, none, none);
    } else if constexpr (Rule::kStates == 1) {
      rule(gradient, weight, slices.first[i], none);
    } else {
      rule(gradient, weight, slices.first[i], slices.second[i]);
    }
    slices.weights[i] = weight;
    finite = finite && isfinite(gradient) && isfinite(weight);
  }
  if (!finite) *not_finite = 1;  // several threads may write it, all the same value
}

// What the threads of a block hold, added up in a fixed tree: for thread 0 the sum. `parts`: shared, kThreads of them.
__device__ double sum_of_block(double part, double* parts) {
  parts[threadIdx.x] = part;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  return parts[0];
}

// Each block leaves its two sums behind the first two values.
template <typename Rule>
__global__ void measure_kernel(Rule rule, UpdateSlices slices, double* sums) {
  __shared__ double of_weights[kThreads];
  __shared__ double of_measured[kThreads];
  double weights = 0, measured = 0;
  for (int64_t i = first_element(); i < slices.count; i += stride()) {
    float none = 0;
    const double weight = slices.weights[i];
    const double found = rule.measure(slices.gradients[i], slices.weights[i], slices.first[i],
                                      Rule::kStates == 1 ? none : slices.second[i]);
    weights += weight * weight;
    measured += found * found;
  }
  weights = sum_of_block(weights, of_weights);
  measured = sum_of_block(measured, of_measured);
  if (threadIdx.x != 0) return;
  sums[2 + 2 * blockIdx.x] = weights;
  sums[3 + 2 * blockIdx.x] = measured;
}

__global__ void add_measures_kernel(double* sums, int blocks) {
  __shared__ double of_weights[kThreads];
  __shared__ double of_measured[kThreads];
  const bool mine = threadIdx.x < static_cast<unsigned>(blocks);
  const double weights = sum_of_block(mine ? sums[2 + 2 * threadIdx.x] : 0, of_weights);
  const double measured = sum_of_block(mine ? sums[3 + 2 * threadIdx.x] : 0, of_measured);
  if (threadIdx.x != 0) return;
  sums[0] = weights;
  sums[1] = measured;
}

__global__ void sums_of_squares_kernel(const float* values, const int64_t* bounds, double* sums) {
  __shared__ double parts[kThreads];
  double part = 0;
  for (int64_t i = bounds[2 * blockIdx.x] + threadIdx.x; i < bounds[2 * blockIdx.x + 1]; i += kThreads) {
    const double value = values[i];
    part += value * value;
  }
  const double sum = sum_of_block(part, parts);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void sums_of_parts_kernel(const double* values, const int64_t* first, double* sums) {
  __shared__ double parts[kThreads];
  double part = 0;
  for (int64_t i = first[blockIdx.x] + threadIdx.x; i < first[blockIdx.x + 1]; i += kThreads) part += values[i];
  const double sum = sum_of_block(part, parts);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// The index of the source pixel for pixel `place` of a result.
__device__ int64_t source_of(const PictureForm& form, const RawPicture& picture, int64_t place) {
  return picture.walk.start + place / form.width * picture.walk.down + place % form.width * picture.walk.right;
}

template <typename Pixel>
__device__ void finish_pixel(const PictureForm& form, const RawPicture& picture, int64_t source, float* out) {
  const Pixel* pixel = static_cast<const Pixel*>(picture.pixels) + source * picture.channels;
  for (int c = 0; c < form.channels; ++c)
    out[c] = normalised(pixel_value(pixel[picture.channels == 1 ? 0 : c]), form.mean[c], form.factor[c]);
}

__global__ void pictures_kernel(PictureForm form, const RawPicture* pictures, int64_t pixels, float* out) {
  const int64_t plane = form.height * form.width;
  for (int64_t i = first_element(); i < pixels; i += stride()) {
    const RawPicture picture = pictures[i / plane];
    const int64_t source = source_of(form, picture, i % plane);
    if (picture.bytes != 0)
      finish_pixel<uint8_t>(form, picture, source, out + i * form.channels);
    else
      finish_pixel<float>(form, picture, source, out + i * form.channels);
  }
}

__global__ void masks_kernel(PictureForm form, const RawPicture* masks, int64_t pixels, int64_t classes, float* out) {
  const int64_t plane = form.height * form.width;
  for (int64_t i = first_element(); i < pixels; i += stride()) {
    const int64_t place = i % plane;
    const RawPicture mask = masks[i / plane];
    const int64_t found = static_cast<const uint8_t*>(mask.pixels)[source_of(form, mask, place)];
    float* first = out + i / plane * classes * plane + place;
    for (int64_t k = 0; k < classes; ++k) first[k * plane] = found == k + 1 ? 1.0F : 0.0F;
  }
}

}  // namespace

cudaError_t add(float* into, const float* from, int64_t numel, cudaStream_t stream) {
  if (numel == 0) return cudaSuccess;
  launch(add_kernel, blocks_for(numel), kThreads, stream, into, from, numel);
  return cudaGetLastError();
}

cudaError_t sum(const Sum& sum, float* output, int64_t numel, cudaStream_t stream) {
  if (numel == 0) return cudaSuccess;
  launch(sum_kernel, blocks_for(numel), kThreads, stream, sum, output, numel);
  return cudaGetLastError();
}

cudaError_t update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, int32_t* not_finite,
                   cudaStream_t stream) {
  if (slices.count == 0) return cudaSuccess;
  with_rule(rule, factors, [&](const auto& chosen) {
    launch(update_kernel<std::decay_t<decltype(chosen)>>, blocks_for(slices.count), kThreads, stream, chosen, slices,
           not_finite);
  });
  return cudaGetLastError();
}

cudaError_t measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums,
                    cudaStream_t stream) {
  const int blocks = std::clamp(blocks_for(slices.count), 1, kThreads);
  with_rule(rule, factors, [&](const auto& chosen) {
    using Rule = std::decay_t<decltype(chosen)>;
    if constexpr (Rule::kTrust) launch(measure_kernel<Rule>, blocks, kThreads, stream, chosen, slices, sums);
  });
  launch(add_measures_kernel, 1, kThreads, stream, sums, blocks);
  return cudaGetLastError();
}

cudaError_t sums_of_squares(const float* values, const int64_t* bounds, int count, double* parts, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  launch(sums_of_squares_kernel, count, kThreads, stream, values, bounds, parts);
  return cudaGetLastError();
}

cudaError_t sums_of_parts(const double* parts, const int64_t* first, int count, double* sums, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  launch(sums_of_parts_kernel, count, kThreads, stream, parts, first, sums);
  return cudaGetLastError();
}

cudaError_t finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out,
                            cudaStream_t stream) {
  const int64_t pixels = count * form.height * form.width;
  if (pixels == 0) return cudaSuccess;
  launch(pictures_kernel, blocks_for(pixels), kThreads, stream, form, pictures, pixels, out);
  return cudaGetLastError();
}

cudaError_t finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes, float* out,
                         cudaStream_t stream) {
  const int64_t pixels = count * form.height * form.width;
  if (pixels == 0) return cudaSuccess;
  launch(masks_kernel, blocks_for(pixels), kThreads, stream, form, masks, pixels, classes, out);
  return cudaGetLastError();
}

}  // namespace dtrain::kernels
