#include "dtrain/model/row_passes.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cstring>

#include "dtrain/model/precision.hpp"

namespace dtrain {

bool serves_rows(const at::Tensor& x, bool training) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) &&
         !autocast_type(at::kCPU) && (training || !at::GradMode::is_enabled());
}

bool fills_rows(int64_t channels, int64_t values) {
  return channels % kColumns == 0 || (kColumns % channels == 0 && values % kColumns == 0);
}

bool streams(const at::Tensor& rows) {
  constexpr size_t kLine = 64, kKept = size_t{1} << 20;
  const auto begin = reinterpret_cast<uintptr_t>(rows.const_data_ptr());
  const size_t row = static_cast<size_t>(rows.stride(0)) * rows.element_size();
  return rows.nbytes() >= kKept && begin % kLine == 0 && row % kLine == 0;
}

at::Tensor as_picture(const at::Tensor& rows, at::IntArrayRef nhw) {
  return rows.view({nhw[0], nhw[1], nhw[2], rows.size(1)}).permute({0, 3, 1, 2});
}

at::Tensor as_rows(const at::Tensor& picture) {
  return picture.permute({0, 2, 3, 1}).contiguous().view({-1, picture.size(1)});
}

NormScales scales_of(const BatchNorm2d& norm, const at::Tensor& mean, const at::Tensor& variance) {
  NormScales scales;
  scales.mean = mean.contiguous();
  scales.inverse = (variance + BatchNorm2d::kEpsilon).rsqrt();
  scales.scale = norm.weight.detach() * scales.inverse;
  scales.shift = norm.bias.detach() - scales.mean * scales.scale;
  return scales;
}

void move_statistics(const BatchNorm2d& norm, const at::Tensor& mean, const at::Tensor& variance, int64_t pixels) {
  const double unbiased = static_cast<double>(pixels) / static_cast<double>(pixels - 1);
  at::Tensor(norm.running_mean).mul_(1 - BatchNorm2d::kMomentum).add_(mean, BatchNorm2d::kMomentum);
  at::Tensor(norm.running_var).mul_(1 - BatchNorm2d::kMomentum).add_(variance, BatchNorm2d::kMomentum * unbiased);
  at::Tensor(norm.num_batches_tracked).add_(1);
}

// Fewer than 32 channels: several pixels lie in a row of the loops.
static int64_t pixels_per_row(int64_t channels) { return channels % kColumns == 0 ? 1 : kColumns / channels; }

static at::Tensor folded(const at::Tensor& rows) {
  return rows.defined() ? rows.view({-1, rows.size(1) * pixels_per_row(rows.size(1))}) : rows;
}

static at::Tensor repeated(const at::Tensor& of_channels) {
  return of_channels.repeat({pixels_per_row(of_channels.numel())});
}

static NormScales repeated(const NormScales& scales) {
  return {repeated(scales.scale), repeated(scales.shift), repeated(scales.mean), repeated(scales.inverse)};
}

NormScales running_scales(const BatchNorm2d& norm) { return scales_of(norm, norm.running_mean, norm.running_var); }

NormScales norm_scales(const BatchNorm2d& norm, const at::Tensor& x) {
  if (!norm.is_training()) return running_scales(norm);
  const at::Tensor values = folded(x);
  const at::Tensor mean = at::empty({values.size(1)}, x.options()), variance = at::empty_like(mean);
  with_type(x, [&](auto zero) {
    using T = decltype(zero);
    Moments<T> moments(values.size(0), values.size(1));
    for_panels(values.size(0), [&](int64_t panel, int64_t begin, int64_t rows) {
      moments.take(panel, rows, const_rows(rows_of<T>(values).at(begin)));
    });
    moments.finish(mean.data_ptr<T>(), variance.data_ptr<T>());
  });
  const at::Tensor means = mean.view({-1, x.size(1)}).to(at::kDouble), whole = means.mean(0);
  const at::Tensor spread = variance.view({-1, x.size(1)}).to(at::kDouble) + (means - whole).square();
  const at::Tensor batch_mean = whole.to(x.dtype()), batch_variance = spread.mean(0).to(x.dtype());
  move_statistics(norm, batch_mean, batch_variance, x.size(0));
  return scales_of(norm, batch_mean, batch_variance);
}

at::Tensor normalised_rows(const at::Tensor& x, int64_t columns, const NormScales& scales, const at::Tensor& more) {
  const at::Tensor y = at::empty({x.size(0), columns}, x.options());
  const bool whole = columns == x.size(1);  // else of a slab, whose channels are never few
  const at::Tensor from = whole ? folded(x) : x, to = folded(y), added = folded(more);
  const NormScales of_rows = repeated(scales);
  const bool streamed = streams(to);
  with_type(x, [&](auto zero) {
    using T = decltype(zero);
    for_panels(to.size(0), [&](int64_t, int64_t begin, int64_t rows) {
      const Rows<const T> values = const_rows(rows_of<T>(from).at(begin));
      if (added.defined())
        row_kernels<T>().normalise_sum(rows, to.size(1), values, of_rows.columns<T>(),
                                       const_rows(rows_of<T>(added).at(begin)), rows_of<T>(to).at(begin), streamed);
      else
        row_kernels<T>().normalise(rows, to.size(1), values, of_rows.columns<T>(), rows_of<T>(to).at(begin), streamed);
    });
  });
  return y;
}

// The first half: d, and for each column of the folded rows its sums.
static void rectified_back(const at::Tensor& x, const NormScales& scales, const at::Tensor& dy,
                           const at::Tensor& result, const at::Tensor& d, const at::Tensor& sum,
                           const at::Tensor& centred) {
  with_type(x, [&](auto zero) {
    using T = decltype(zero);
    for_columns(x.size(1), [&](int64_t first, int64_t count) {
      T *const sums = sum.data_ptr<T>() + first, *const centred_sums = centred.data_ptr<T>() + first;
      for (int64_t begin = 0; begin < x.size(0); begin += kPanel) {
        const int64_t rows = std::min(kPanel, x.size(0) - begin);
        const Rows<const T> given = const_rows(rows_of<T>(dy).at(begin, first)),
                            values = const_rows(rows_of<T>(x).at(begin, first));
        const Rows<T> to = rows_of<T>(d).at(begin, first);
        const ColumnScales<T> norm = scales.columns<T>().at(first);
        if (result.defined())
          row_kernels<T>().rectify_back_by(rows, count, given, values, norm.mean,
                                           const_rows(rows_of<T>(result).at(begin, first)), to, sums, centred_sums);
        else
          row_kernels<T>().rectify_back(rows, count, given, values, norm, to, sums, centred_sums);
      }
    });
  });
}

NormGradients norm_back(const at::Tensor& x, const NormScales& scales, const at::Tensor& gamma, const at::Tensor& dy,
                        const at::Tensor& result, const at::Tensor& d, const at::Tensor& dx) {
  const at::Tensor values = folded(x), behind_relu = folded(d), to = folded(dx);
  const at::Tensor sum = at::zeros({values.size(1)}, x.options()), centred = at::zeros_like(sum);
  const NormScales of_rows = repeated(scales);
  rectified_back(values, of_rows, folded(dy), folded(result), behind_relu, sum, centred);
  const auto of_channels = [&](const at::Tensor& sums) { return sums.view({-1, x.size(1)}).sum(0); };
  const NormGradients gradients{of_channels(centred) * scales.inverse, of_channels(sum)};
  const double share = 1.0 / static_cast<double>(x.size(0));
  const at::Tensor scale = gamma * scales.inverse;
  const at::Tensor scale_rows = repeated(scale), offset = repeated(scale * gradients.bias * share),
                   slope = repeated(scale * scales.inverse * gradients.weight * share);
  const bool streamed = streams(to) && !to.is_alias_of(behind_relu);
  with_type(x, [&](auto zero) {
    using T = decltype(zero);
    for_panels(values.size(0), [&](int64_t, int64_t begin, int64_t rows) {
      row_kernels<T>().centre_back(rows, values.size(1), const_rows(rows_of<T>(behind_relu).at(begin)),
                                   const_rows(rows_of<T>(values).at(begin)), of_rows.mean.template data_ptr<T>(),
                                   scale_rows.data_ptr<T>(), slope.data_ptr<T>(), offset.data_ptr<T>(),
                                   rows_of<T>(to).at(begin), streamed);
    });
  });
  return gradients;
}

}  // namespace dtrain
