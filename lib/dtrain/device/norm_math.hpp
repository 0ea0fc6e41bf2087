#pragma once
#include <cstdint>

namespace dtrain {

/// How a value of a picture is stored. Everything else of a norm is float32.
enum class NormValue : uint8_t { float32, bfloat16, float16 };

/// A matrix of a device's memory whose rows are pixels and whose columns are channels: NHWC pictures, or some channels
/// of wider ones.
struct NormShape {
  NormValue value = NormValue::float32;
  int64_t rows = 0;     ///< 1 or more
  int64_t columns = 0;  ///< 1 or more
};

/// The first value, and how many values lie between the beginnings of two rows: as many as there are columns, or more.
template <class Pointer>
struct NormRows {
  Pointer data = nullptr;
  int64_t stride = 0;
};
using NormInput = NormRows<const void*>;
using NormOutput = NormRows<void*>;

/// What a norm does to each column: x̂ = (x − mean) / √(variance + kNormEpsilon), and of that gamma · x̂ + beta. One
/// float for each column.
struct NormColumns {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;  ///< biased
};

/// What a way back leaves of d, the gradient behind a ReLU, where it is to be kept.
struct NormGradient {
  enum class Kind : uint8_t {
    plain,        ///< d
    weighted,     ///< gamma · d
    weighted_sum  ///< what was there and gamma · d
  };
  Kind kind = Kind::plain;
  NormOutput to;
  float* total_gamma = nullptr;  ///< where weighted: of each column gamma · d_gamma, or what was there and that
  float* total_beta = nullptr;   ///< the same of d_beta
};

/// Of each column, moved towards what a pass finds: running · (1 − kNormMomentum) + found · kNormMomentum.
struct NormRunning {
  float* mean = nullptr;
  float* variance = nullptr;  ///< unbiased: there are 2 rows or more
};

inline constexpr float kNormEpsilon = 1e-5F;
inline constexpr float kNormMomentum = 0.1F;

/// Batch normalisation (Ioffe and Szegedy 2015) with a ReLU behind it on a device: pointers are to its memory, work
/// goes to the calling thread's current stream, and calls return at once. An input is read by as few passes as that
/// can be done with: statistics, result; on the way back sums, gradient.
///
/// Sums have one order, which depends on the shape alone: columns are added up in pieces of kPiece rows, of kStrands
/// strands each, in float; the pieces in double. (The mean of a piece, and then the squares of what differs from it, as
/// in Chan, Golub and LeVeque 1979.) So the bits are the same on every device, for any number of its processors.
///
/// A GPU's calls throw DeviceError where it has failed, and Error with kOutOfMemory.
class NormMath {
 public:
  static constexpr int64_t kPiece = 256;
  static constexpr int kStrands = 8;        ///< of a piece: row r belongs to strand r % kStrands
  static constexpr int kPieceStrands = 32;  ///< of the sum over pieces, likewise

  virtual ~NormMath() = default;

  /// Mean and biased variance of each column; moves `running` where it has data.
  virtual void statistics(const NormShape& shape, NormInput x, float* mean, float* variance,
                          const NormRunning& running) const = 0;
  /// Moves `running` by what statistics() has found for this shape.
  virtual void move_statistics(const NormShape& shape, const float* mean, const float* variance,
                               const NormRunning& running) const = 0;
  /// y = max(0, norm(x)), or max(0, norm(x) + more) if `more` has data.
  virtual void normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more,
                         NormOutput y) const = 0;

  /// The way back through normalise(), first pass. d = dy where the result was above 0, else 0: by `result` if it has
  /// data (where something had been added), else by the norm of x. Sets d_beta = Σd and d_gamma = Σ d·x̂; d is kept
  /// where `d` has data, which may be dy.
  virtual void rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm,
                            NormInput result, const NormGradient& d, float* d_gamma, float* d_beta) const = 0;
  /// Second pass, with statistics of the batch: dx = gamma / √(variance + kNormEpsilon) · (d − d_beta/n − x̂·d_gamma/n)
  /// of n rows. `given`: d if `rectified`, else dy, of which d is made again. dx may be what is given.
  virtual void centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x,
                           const NormColumns& norm, const float* d_gamma, const float* d_beta, NormOutput dx) const = 0;
};

}  // namespace dtrain
