#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "dtrain/cuda/launch.cuh"
#include "dtrain/cuda/norm_kernels.hpp"

// A block takes a piece of rows of some columns: its threads lie side by side along the columns, as the memory does,
// and each takes the rows of one strand. Compiled with -fmad=false, as kernels.cu.

namespace dtrain::kernels {
namespace {

constexpr int kStrands = NormMath::kStrands;
constexpr int64_t kPiece = NormMath::kPiece;
constexpr int kTileColumns = 32;  // of a block: a warp
constexpr int kTileThreads = kTileColumns * kStrands;
constexpr int kRowsOfThread = kPiece / kStrands;
constexpr int kPieceStrands = NormMath::kPieceStrands;
constexpr int kSumColumns = 8;  // of a block that adds up pieces
constexpr int kSumThreads = kSumColumns * kPieceStrands;

__device__ float to_float(float value) { return value; }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ void store(float value, float* to) { *to = value; }
__device__ void store(float value, __nv_bfloat16* to) { *to = __float2bfloat16_rn(value); }
__device__ void store(float value, __half* to) { *to = __float2half_rn(value); }

// Of the running thread of a block that takes a piece: as many strands as there are threads for each column.
struct Tile {
  int64_t piece, column, first;
  int rows, strand, strands;  // rows: of the piece
  bool inside;                // whether there is such a column
};

__device__ Tile tile_of(const NormShape& shape, int width = kTileColumns) {
  const int64_t tiles = (shape.columns + width - 1) / width;
  Tile tile;
  tile.piece = blockIdx.x / tiles;
  tile.column = blockIdx.x % tiles * width + threadIdx.x % width;
  tile.first = tile.piece * kPiece;
  tile.rows = static_cast<int>(shape.rows - tile.first < kPiece ? shape.rows - tile.first : kPiece);
  tile.strand = static_cast<int>(threadIdx.x) / width;
  tile.strands = kTileThreads / width;
  tile.inside = tile.column < shape.columns;
  return tile;
}

// What a thread reads of one row.
struct Values {
  float x, other, kept;
};

// The rows of a thread in their order, some read ahead: a read behind a write could be of what was written, for all the
// compiler knows, and would wait for it. A pass writes at most over what it has read of the same row.
template <typename Read, typename Use>
__device__ void for_rows(const Tile& tile, const Read& read, const Use& use) {
  constexpr int kAhead = 8;
  for (int begin = tile.strand; begin < tile.rows; begin += kAhead * tile.strands) {
    Values values[kAhead];
    for (int i = 0; i < kAhead; ++i)
      if (begin + i * tile.strands < tile.rows) values[i] = read(tile.first + begin + i * tile.strands);
    for (int i = 0; i < kAhead; ++i)
      if (begin + i * tile.strands < tile.rows) use(tile.first + begin + i * tile.strands, values[i]);
  }
}

template <typename T>
__device__ float value_at(NormInput rows, int64_t row, int64_t column) {
  return to_float(static_cast<const T*>(rows.data)[row * rows.stride + column]);
}
template <typename T>
__device__ void set_value(NormOutput rows, int64_t row, int64_t column, float value) {
  store(value, static_cast<T*>(rows.data) + row * rows.stride + column);
}

// What the strands of each of a block's columns hold, added up in a fixed tree: for every thread its column's sum.
// `shared`: as many as the block has threads, of the caller's alone.
template <typename Sum>
__device__ Sum sum_of_strands(Sum part, Sum* shared, int columns, int strands) {
  const int place = static_cast<int>(threadIdx.x);
  shared[place] = part;
  __syncthreads();
  for (int half = strands / 2; half > 0; half /= 2) {
    if (place < half * columns) shared[place] += shared[place + half * columns];
    __syncthreads();
  }
  return shared[place % columns];
}

// A column's norm, as one product and one sum.
struct Scale {
  float mean, inverse, scale, shift;
};

__device__ Scale scale_of(const NormColumns& norm, int64_t column) {
  Scale one;
  one.mean = norm.mean[column];
  one.inverse = 1.0F / sqrtf(norm.variance[column] + kNormEpsilon);
  one.scale = norm.gamma[column] * one.inverse;
  one.shift = norm.beta[column] - one.mean * one.scale;
  return one;
}

template <typename T>
__global__ void statistics_kernel(NormShape shape, NormInput x, float* parts) {
  __shared__ float sums[kTileThreads];
  __shared__ float squares[kTileThreads];
  const Tile tile = tile_of(shape);
  float values[kRowsOfThread];
  float sum = 0;
  for (int i = 0; i < kRowsOfThread; ++i) {
    const int row = tile.strand + i * kStrands;
    values[i] = tile.inside && row < tile.rows ? value_at<T>(x, tile.first + row, tile.column) : 0.0F;
    sum += values[i];
  }
  const float mean = sum_of_strands(sum, sums, kTileColumns, kStrands) / static_cast<float>(tile.rows);
  float square = 0;
  for (int i = 0; i < kRowsOfThread; ++i) {
    const float step = values[i] - mean;
    if (tile.strand + i * kStrands < tile.rows) square += step * step;
  }
  square = sum_of_strands(square, squares, kTileColumns, kStrands);
  if (tile.strand != 0 || !tile.inside) return;
  float* const part = parts + 2 * tile.piece * shape.columns + tile.column;
  part[0] = mean;
  part[shape.columns] = square;
}

// Of the running thread of a block that adds up pieces.
struct Pieces {
  int64_t count, column, step;
  const float* first;  // of the column; the other half of its parts is `columns` further
  int strand;
  bool inside;
};

__device__ Pieces pieces_of(const NormShape& shape, const float* parts) {
  Pieces all;
  all.count = (shape.rows + kPiece - 1) / kPiece;
  all.column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x % kSumColumns;
  all.step = 2 * shape.columns;
  all.first = parts + all.column;
  all.strand = static_cast<int>(threadIdx.x) / kSumColumns;
  all.inside = all.column < shape.columns;
  return all;
}

__device__ void move(const NormRunning& running, int64_t column, float unbiased, float mean, float variance) {
  running.mean[column] = running.mean[column] * (1 - kNormMomentum) + mean * kNormMomentum;
  running.variance[column] = running.variance[column] * (1 - kNormMomentum) + variance * unbiased * kNormMomentum;
}

__global__ void finish_statistics_kernel(NormShape shape, const float* parts, float* mean, float* variance,
                                         NormRunning running, float unbiased) {
  __shared__ double sums[kSumThreads];
  __shared__ double squares[kSumThreads];
  const Pieces all = pieces_of(shape, parts);
  const auto rows_of = [&](int64_t piece) {
    return static_cast<double>(piece + 1 < all.count ? kPiece : shape.rows - piece * kPiece);
  };
  double sum = 0;
  if (all.inside)
    for (int64_t i = all.strand; i < all.count; i += kPieceStrands) sum += rows_of(i) * all.first[i * all.step];
  const auto rows = static_cast<double>(shape.rows);
  const double whole = sum_of_strands(sum, sums, kSumColumns, kPieceStrands) / rows;
  double square = 0;
  if (all.inside)
    for (int64_t i = all.strand; i < all.count; i += kPieceStrands) {
      const double step = all.first[i * all.step] - whole;
      square += all.first[i * all.step + shape.columns] + rows_of(i) * (step * step);
    }
  square = sum_of_strands(square, squares, kSumColumns, kPieceStrands);
  if (all.strand != 0 || !all.inside) return;
  mean[all.column] = static_cast<float>(whole);
  variance[all.column] = static_cast<float>(square / rows);
  if (running.mean != nullptr) move(running, all.column, unbiased, mean[all.column], variance[all.column]);
}

__global__ void move_kernel(int64_t columns, float unbiased, const float* mean, const float* variance,
                            NormRunning running) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < columns) move(running, i, unbiased, mean[i], variance[i]);
}

template <typename T>
__global__ void normalise_kernel(NormShape shape, int width, NormInput x, NormColumns norm, NormInput more,
                                 NormOutput y) {
  const Tile tile = tile_of(shape, width);
  if (!tile.inside) return;
  const Scale one = scale_of(norm, tile.column);
  const auto read = [&](int64_t row) {
    return Values{value_at<T>(x, row, tile.column), more.data == nullptr ? 0.0F : value_at<T>(more, row, tile.column),
                  0};
  };
  for_rows(tile, read, [&](int64_t row, const Values& values) {
    float value = values.x * one.scale + one.shift;
    if (more.data != nullptr) value += values.other;
    set_value<T>(y, row, tile.column, value <= 0 ? 0.0F : value);  // NaN stays
  });
}

template <typename T>
__global__ void rectify_back_kernel(NormShape shape, NormInput dy, NormInput x, NormColumns norm, NormInput result,
                                    NormGradient d, float* parts) {
  __shared__ float sums[kTileThreads];
  __shared__ float centred_sums[kTileThreads];
  const Tile tile = tile_of(shape);
  float sum = 0, centred = 0;
  if (tile.inside) {
    const Scale one = scale_of(norm, tile.column);
    const float gamma = norm.gamma[tile.column];
    const bool keeps = d.to.data != nullptr, adds = d.kind == NormGradient::Kind::weighted_sum;
    const auto read = [&](int64_t row) {
      Values values;
      values.x = value_at<T>(x, row, tile.column);
      const float behind =
          result.data != nullptr ? value_at<T>(result, row, tile.column) : values.x * one.scale + one.shift;
      values.other = behind <= 0 ? 0.0F : value_at<T>(dy, row, tile.column);
      values.kept = keeps && adds ? value_at<T>({d.to.data, d.to.stride}, row, tile.column) : 0.0F;
      return values;
    };
    for_rows(tile, read, [&](int64_t row, const Values& values) {
      const float gradient = values.other;
      if (keeps) {
        const float kept = d.kind == NormGradient::Kind::plain ? gradient : gamma * gradient;
        set_value<T>(d.to, row, tile.column, adds ? kept + values.kept : kept);
      }
      sum += gradient;
      centred += gradient * (values.x - one.mean);
    });
  }
  sum = sum_of_strands(sum, sums, kTileColumns, kStrands);
  centred = sum_of_strands(centred, centred_sums, kTileColumns, kStrands);
  if (tile.strand != 0 || !tile.inside) return;
  float* const part = parts + 2 * tile.piece * shape.columns + tile.column;
  part[0] = sum;
  part[shape.columns] = centred;
}

__global__ void finish_back_kernel(NormShape shape, const float* parts, NormColumns norm, NormGradient d,
                                   float* d_gamma, float* d_beta) {
  __shared__ double sums[kSumThreads];
  __shared__ double centred_sums[kSumThreads];
  const Pieces all = pieces_of(shape, parts);
  double sum = 0, centred = 0;
  if (all.inside)
    for (int64_t i = all.strand; i < all.count; i += kPieceStrands) {
      sum += all.first[i * all.step];
      centred += all.first[i * all.step + shape.columns];
    }
  sum = sum_of_strands(sum, sums, kSumColumns, kPieceStrands);
  centred = sum_of_strands(centred, centred_sums, kSumColumns, kPieceStrands);
  if (all.strand != 0 || !all.inside) return;
  d_beta[all.column] = static_cast<float>(sum);
  d_gamma[all.column] = static_cast<float>(centred * scale_of(norm, all.column).inverse);
  if (d.kind == NormGradient::Kind::plain) return;
  const bool adds = d.kind == NormGradient::Kind::weighted_sum;
  const float gamma = norm.gamma[all.column];
  d.total_gamma[all.column] = (adds ? d.total_gamma[all.column] : 0.0F) + gamma * d_gamma[all.column];
  d.total_beta[all.column] = (adds ? d.total_beta[all.column] : 0.0F) + gamma * d_beta[all.column];
}

template <typename T>
__global__ void centre_back_kernel(NormShape shape, int width, NormInput given, bool rectified, NormInput x,
                                   NormColumns norm, const float* d_gamma, const float* d_beta, NormOutput dx) {
  const Tile tile = tile_of(shape, width);
  if (!tile.inside) return;
  const Scale one = scale_of(norm, tile.column);
  const auto rows = static_cast<float>(shape.rows);
  const float offset = d_beta[tile.column] / rows, slope = one.inverse * d_gamma[tile.column] / rows;
  const auto read = [&](int64_t row) {
    return Values{value_at<T>(x, row, tile.column), value_at<T>(given, row, tile.column), 0};
  };
  for_rows(tile, read, [&](int64_t row, const Values& values) {
    const bool closed = !rectified && values.x * one.scale + one.shift <= 0;
    const float gradient = closed ? 0.0F : values.other;
    set_value<T>(dx, row, tile.column, one.scale * (gradient - offset - (values.x - one.mean) * slope));
  });
}

int tiles_of(const NormShape& shape, int width = kTileColumns) {
  return static_cast<int>((shape.rows + kPiece - 1) / kPiece * ((shape.columns + width - 1) / width));
}
// Of a pass that adds nothing up: no threads without a column where there are few.
int width_for(const NormShape& shape) {
  int width = kTileColumns;
  while (width / 2 >= shape.columns) width /= 2;
  return width;
}
int sums_of(const NormShape& shape) { return static_cast<int>((shape.columns + kSumColumns - 1) / kSumColumns); }

float unbiased_factor(const NormShape& shape) {
  return static_cast<float>(static_cast<double>(shape.rows) / static_cast<double>(shape.rows - 1));
}

template <typename Body>
void with_value(NormValue value, const Body& body) {
  switch (value) {
    case NormValue::float32:
      return body(float{});
    case NormValue::bfloat16:
      return body(__nv_bfloat16{});
    case NormValue::float16:
      return body(__half{});
  }
}

}  // namespace

cudaError_t norm_statistics(const NormShape& shape, NormInput x, float* parts, float* mean, float* variance,
                            const NormRunning& running, cudaStream_t stream) {
  with_value(shape.value, [&](auto zero) {
    launch(statistics_kernel<decltype(zero)>, tiles_of(shape), kTileThreads, stream, shape, x, parts);
  });
  launch(finish_statistics_kernel, sums_of(shape), kSumThreads, stream, shape, parts, mean, variance, running,
         unbiased_factor(shape));
  return cudaGetLastError();
}

cudaError_t norm_move(const NormShape& shape, const float* mean, const float* variance, const NormRunning& running,
                      cudaStream_t stream) {
  const int blocks = static_cast<int>((shape.columns + kTileThreads - 1) / kTileThreads);
  launch(move_kernel, blocks, kTileThreads, stream, shape.columns, unbiased_factor(shape), mean, variance, running);
  return cudaGetLastError();
}

cudaError_t norm_normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more, NormOutput y,
                           cudaStream_t stream) {
  const int width = width_for(shape);
  with_value(shape.value, [&](auto zero) {
    launch(normalise_kernel<decltype(zero)>, tiles_of(shape, width), kTileThreads, stream, shape, width, x, norm, more,
           y);
  });
  return cudaGetLastError();
}

cudaError_t norm_rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm,
                              NormInput result, const NormGradient& d, float* parts, float* d_gamma, float* d_beta,
                              cudaStream_t stream) {
  with_value(shape.value, [&](auto zero) {
    launch(rectify_back_kernel<decltype(zero)>, tiles_of(shape), kTileThreads, stream, shape, dy, x, norm, result, d,
           parts);
  });
  launch(finish_back_kernel, sums_of(shape), kSumThreads, stream, shape, parts, norm, d, d_gamma, d_beta);
  return cudaGetLastError();
}

cudaError_t norm_centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x,
                             const NormColumns& norm, const float* d_gamma, const float* d_beta, NormOutput dx,
                             cudaStream_t stream) {
  const int width = width_for(shape);
  with_value(shape.value, [&](auto zero) {
    launch(centre_back_kernel<decltype(zero)>, tiles_of(shape, width), kTileThreads, stream, shape, width, given,
           rectified, x, norm, d_gamma, d_beta, dx);
  });
  return cudaGetLastError();
}

}  // namespace dtrain::kernels
