#include "support/host_norms.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/sixteen_bits.hpp"

namespace dtrain::test {
namespace {

struct BFloat16 {
  uint16_t bits;
  static float value(BFloat16 stored) { return bfloat16_value(stored.bits); }
  static BFloat16 nearest(float value) { return {nearest_bfloat16(value)}; }
};
struct Float16 {
  uint16_t bits;
  static float value(Float16 stored) { return float16_value(stored.bits); }
  static Float16 nearest(float value) { return {nearest_float16(value)}; }
};
struct Float32 {
  float all;
  static float value(Float32 stored) { return stored.all; }
  static Float32 nearest(float value) { return {value}; }
};

template <class Body>
void with_value(NormValue value, const Body& body) {
  if (value == NormValue::float32) return body(Float32{});
  if (value == NormValue::bfloat16) return body(BFloat16{});
  return body(Float16{});
}

// Sums of columns, a row at a time: each row into one of some strands, these in a tree.
template <class Sum, int kCount>
class Strands {
 public:
  explicit Strands(int64_t columns) : columns_(columns), sums_(static_cast<size_t>(kCount * columns)) {}
  // Of row `row`: value(c) of each column.
  template <class Value>
  void add(int64_t row, const Value& value) {
    Sum* const strand = sums_.data() + row % kCount * columns_;
    for (int64_t c = 0; c < columns_; ++c) strand[c] += value(c);
  }
  // One for each column; begins anew.
  std::vector<Sum> take() {
    for (int half = kCount / 2; half > 0; half /= 2)
      for (int64_t i = 0; i < half * columns_; ++i)
        sums_[static_cast<size_t>(i)] += sums_[static_cast<size_t>(i + half * columns_)];
    std::vector<Sum> whole(sums_.begin(), sums_.begin() + columns_);
    std::fill(sums_.begin(), sums_.end(), Sum(0));
    return whole;
  }

 private:
  int64_t columns_;
  std::vector<Sum> sums_;
};
using PieceSums = Strands<float, NormMath::kStrands>;
using WholeSums = Strands<double, NormMath::kPieceStrands>;

struct Scales {
  std::vector<float> inverse, scale, shift;
  Scales(const NormColumns& norm, int64_t columns) {
    for (int64_t c = 0; c < columns; ++c) {
      inverse.push_back(1.0F / std::sqrt(norm.variance[c] + kNormEpsilon));
      scale.push_back(norm.gamma[c] * inverse.back());
      shift.push_back(norm.beta[c] - norm.mean[c] * scale.back());
    }
  }
};

template <class T>
const T* row_of(NormInput rows, int64_t row) {
  return static_cast<const T*>(rows.data) + row * rows.stride;
}
template <class T>
T* row_of(NormOutput rows, int64_t row) {
  return static_cast<T*>(rows.data) + row * rows.stride;
}

class HostNorms final : public NormMath {
 public:
  void statistics(const NormShape& shape, NormInput x, float* mean, float* variance,
                  const NormRunning& running) const override {
    const int64_t columns = shape.columns, pieces = (shape.rows + kPiece - 1) / kPiece;
    const auto rows = static_cast<double>(shape.rows);
    with_value(shape.value, [&](auto zero) {
      using T = decltype(zero);
      std::vector<std::vector<float>> means, squares;
      PieceSums sums(columns);
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t begin = i * kPiece, count = std::min(kPiece, shape.rows - begin);
        for (int64_t r = 0; r < count; ++r) {
          const T* values = row_of<T>(x, begin + r);
          sums.add(r, [&](int64_t c) { return T::value(values[c]); });
        }
        means.push_back(sums.take());
        float* const found = means.back().data();
        for (int64_t c = 0; c < columns; ++c) found[c] /= static_cast<float>(count);
        for (int64_t r = 0; r < count; ++r) {
          const T* values = row_of<T>(x, begin + r);
          sums.add(r, [&](int64_t c) {
            const float step = T::value(values[c]) - found[c];
            return step * step;
          });
        }
        squares.push_back(sums.take());
      }
      const auto rows_of = [&](int64_t i) { return static_cast<double>(std::min(kPiece, shape.rows - i * kPiece)); };
      const auto of = [](const std::vector<std::vector<float>>& all, int64_t i, int64_t c) {
        return all[static_cast<size_t>(i)][static_cast<size_t>(c)];
      };
      WholeSums over_pieces(columns);
      for (int64_t i = 0; i < pieces; ++i) over_pieces.add(i, [&](int64_t c) { return rows_of(i) * of(means, i, c); });
      std::vector<double> whole = over_pieces.take();
      for (double& one : whole) one /= rows;
      for (int64_t i = 0; i < pieces; ++i)
        over_pieces.add(i, [&](int64_t c) {
          const double step = of(means, i, c) - whole[static_cast<size_t>(c)];
          return of(squares, i, c) + rows_of(i) * (step * step);
        });
      const std::vector<double> square = over_pieces.take();
      for (int64_t c = 0; c < columns; ++c) {
        mean[c] = static_cast<float>(whole[static_cast<size_t>(c)]);
        variance[c] = static_cast<float>(square[static_cast<size_t>(c)] / rows);
      }
    });
    if (running.mean != nullptr) move_statistics(shape, mean, variance, running);
  }

  void move_statistics(const NormShape& shape, const float* mean, const float* variance,
                       const NormRunning& running) const override {
    const auto unbiased = static_cast<float>(static_cast<double>(shape.rows) / static_cast<double>(shape.rows - 1));
    for (int64_t c = 0; c < shape.columns; ++c) {
      running.mean[c] = running.mean[c] * (1 - kNormMomentum) + mean[c] * kNormMomentum;
      running.variance[c] = running.variance[c] * (1 - kNormMomentum) + variance[c] * unbiased * kNormMomentum;
    }
  }

  void normalise(const NormShape& shape, NormInput x, const NormColumns& norm, NormInput more,
                 NormOutput y) const override {
    const Scales all(norm, shape.columns);
    const float *const scale = all.scale.data(), *const shift = all.shift.data();
    with_value(shape.value, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t r = 0; r < shape.rows; ++r) {
        const T *const from = row_of<T>(x, r), *const added = more.data == nullptr ? nullptr : row_of<T>(more, r);
        T* const to = row_of<T>(y, r);
        for (int64_t c = 0; c < shape.columns; ++c) {
          float value = T::value(from[c]) * scale[c] + shift[c];
          if (added != nullptr) value += T::value(added[c]);
          to[c] = T::nearest(value <= 0 ? 0.0F : value);
        }
      }
    });
  }

  void rectify_back(const NormShape& shape, NormInput dy, NormInput x, const NormColumns& norm, NormInput result,
                    const NormGradient& d, float* d_gamma, float* d_beta) const override {
    const int64_t columns = shape.columns, pieces = (shape.rows + kPiece - 1) / kPiece;
    const Scales all(norm, columns);
    const float *const scale = all.scale.data(), *const shift = all.shift.data();
    const bool weighted = d.kind != NormGradient::Kind::plain, adds = d.kind == NormGradient::Kind::weighted_sum;
    WholeSums whole(columns), whole_centred(columns);
    with_value(shape.value, [&](auto zero) {
      using T = decltype(zero);
      PieceSums sums(columns), centred_sums(columns);
      std::vector<float> gradients(static_cast<size_t>(columns));
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t begin = i * kPiece, count = std::min(kPiece, shape.rows - begin);
        for (int64_t r = 0; r < count; ++r) {
          const T *const given = row_of<T>(dy, begin + r), *const values = row_of<T>(x, begin + r),
                         *const behind = result.data == nullptr ? nullptr : row_of<T>(result, begin + r);
          float* const gradient = gradients.data();
          for (int64_t c = 0; c < columns; ++c) {
            const float after = behind != nullptr ? T::value(behind[c]) : T::value(values[c]) * scale[c] + shift[c];
            gradient[c] = after <= 0 ? 0.0F : T::value(given[c]);
          }
          if (T* const to = d.to.data == nullptr ? nullptr : row_of<T>(d.to, begin + r); to != nullptr)
            for (int64_t c = 0; c < columns; ++c) {
              const float kept = weighted ? norm.gamma[c] * gradient[c] : gradient[c];
              to[c] = T::nearest(adds ? kept + T::value(to[c]) : kept);
            }
          sums.add(r, [&](int64_t c) { return gradient[c]; });
          centred_sums.add(r, [&](int64_t c) { return gradient[c] * (T::value(values[c]) - norm.mean[c]); });
        }
        const std::vector<float> piece = sums.take(), piece_centred = centred_sums.take();
        whole.add(i, [&](int64_t c) { return static_cast<double>(piece[static_cast<size_t>(c)]); });
        whole_centred.add(i, [&](int64_t c) { return static_cast<double>(piece_centred[static_cast<size_t>(c)]); });
      }
    });
    const std::vector<double> sum = whole.take(), centred = whole_centred.take();
    for (int64_t c = 0; c < columns; ++c) {
      const auto k = static_cast<size_t>(c);
      d_beta[c] = static_cast<float>(sum[k]);
      d_gamma[c] = static_cast<float>(centred[k] * all.inverse[k]);
      if (!weighted) continue;
      d.total_gamma[c] = (adds ? d.total_gamma[c] : 0.0F) + norm.gamma[c] * d_gamma[c];
      d.total_beta[c] = (adds ? d.total_beta[c] : 0.0F) + norm.gamma[c] * d_beta[c];
    }
  }

  void centre_back(const NormShape& shape, NormInput given, bool rectified, NormInput x, const NormColumns& norm,
                   const float* d_gamma, const float* d_beta, NormOutput dx) const override {
    const Scales all(norm, shape.columns);
    const float *const scale = all.scale.data(), *const shift = all.shift.data();
    std::vector<float> offset, slope;
    for (int64_t c = 0; c < shape.columns; ++c) {
      offset.push_back(d_beta[c] / static_cast<float>(shape.rows));
      slope.push_back(all.inverse[static_cast<size_t>(c)] * d_gamma[c] / static_cast<float>(shape.rows));
    }
    with_value(shape.value, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t r = 0; r < shape.rows; ++r) {
        const T *const from = row_of<T>(given, r), *const values = row_of<T>(x, r);
        T* const to = row_of<T>(dx, r);
        for (int64_t c = 0; c < shape.columns; ++c) {
          const auto k = static_cast<size_t>(c);
          const float value = T::value(values[c]);
          const bool closed = !rectified && value * scale[c] + shift[c] <= 0;
          const float gradient = closed ? 0.0F : T::value(from[c]);
          to[c] = T::nearest(scale[c] * (gradient - offset[k] - (value - norm.mean[c]) * slope[k]));
        }
      }
    });
  }
};

}  // namespace

const NormMath& host_norms() {
  static const HostNorms norms;
  return norms;
}

}  // namespace dtrain::test
