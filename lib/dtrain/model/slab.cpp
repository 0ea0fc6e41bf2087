#include "dtrain/model/slab.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cstring>

#include "dtrain/model/row_products.hpp"

namespace dtrain {

static constexpr int64_t kBlockColumns = 128;  // columns of a panel on the way back

Slab::Slab(at::IntArrayRef picture, int64_t channels, bool in_training, const at::TensorOptions& options)
    : nhw(picture.vec()), pixels(nhw[0] * nhw[1] * nhw[2]), training(in_training) {
  values = at::empty({pixels, channels}, options);
  mean = at::zeros({channels}, options);
  variance = at::zeros({channels}, options);
  inverse = at::zeros({channels}, options);
}

void Slab::append(const at::Tensor& rows) {
  const int64_t width = rows.size(1);
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    Moments<T> moments(pixels, width);
    for_panels(pixels, [&](int64_t panel, int64_t begin, int64_t count) {
      const Rows<T> from = rows_of<T>(rows).at(begin), to = rows_of<T>(values, filled).at(begin);
      for (int64_t r = 0; r < count; ++r)
        std::memcpy(to.at(r).data, from.at(r).data, static_cast<size_t>(width) * sizeof(T));
      if (training) moments.take(panel, count, const_rows(from));
    });
    if (training) moments.finish(mean.data_ptr<T>() + filled, variance.data_ptr<T>() + filled);
  });
  if (training)
    inverse.narrow(0, filled, width).copy_((variance.narrow(0, filled, width) + BatchNorm2d::kEpsilon).rsqrt());
  filled += width;
}

NormScales Slab::scales(const BatchNorm2d& norm) const {
  if (!training) return running_scales(norm);
  const at::Tensor batch_mean = mean.narrow(0, 0, filled), batch_variance = variance.narrow(0, 0, filled);
  move_statistics(norm, batch_mean, batch_variance, pixels);
  return scales_of(norm, batch_mean, batch_variance);
}

at::Tensor Slab::normalised(const NormScales& scales) const { return normalised_rows(values, filled, scales); }

at::Tensor Slab::pooled(const NormScales& scales) const {
  const int64_t high = nhw[1] / 2, wide = nhw[2] / 2;
  const at::Tensor result = at::empty({nhw[0] * high * wide, filled}, values.options());
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    at::parallel_for(0, nhw[0] * high, 1, [&](int64_t first, int64_t last) {
      Scratch<T> lines(2 * nhw[2] * filled);
      const Rows<T> panel{lines.data(), filled};
      for (int64_t line = first; line < last; ++line) {
        const int64_t begin = (line / high * nhw[1] + line % high * 2) * nhw[2];
        row_kernels<T>().normalise(2 * nhw[2], filled, const_rows(rows_of<T>(values).at(begin)), scales.columns<T>(),
                                   panel, false);
        for (int64_t j = 0; j < wide; ++j) {
          const T *a = panel.at(2 * j).data, *b = panel.at(2 * j + 1).data, *c = panel.at(nhw[2] + 2 * j).data,
                  *d = panel.at(nhw[2] + 2 * j + 1).data;
          T* to = rows_of<T>(result).at(line * wide + j).data;
          for (int64_t k = 0; k < filled; ++k) to[k] = ((a[k] + b[k]) + (c[k] + d[k])) * T(0.25);
        }
      }
    });
  });
  return result;
}

at::Tensor Slab::product(const NormScales& scales, const at::Tensor& kernel, const BatchNorm2d& after,
                         NormScales& middle) const {
  const int64_t out = kernel.size(0), depth = filled;
  const at::Tensor y = at::empty({pixels, out}, values.options());
  at::Tensor y_mean = after.running_mean, y_variance = after.running_var;
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const RowKernels<T>& kernels = row_kernels<T>();
    Scratch<T> packed(kernel.numel());
    kernels.pack(depth, out, kernel.const_data_ptr<T>(), 1, depth, packed.data());
    Moments<T> moments(pixels, out);
    at::parallel_for(0, (pixels + kPanel - 1) / kPanel, 1, [&](int64_t first, int64_t last) {
      Scratch<T> memory(kPanel * depth);
      const Rows<T> panel{memory.data(), depth};
      for (int64_t i = first; i < last; ++i) {
        const int64_t begin = i * kPanel, rows = std::min(kPanel, pixels - begin);
        const Rows<T> to = rows_of<T>(y).at(begin);
        kernels.normalise(rows, depth, const_rows(rows_of<T>(values).at(begin)), scales.columns<T>(), panel, false);
        kernels.multiply(rows, out, depth, const_rows(panel), packed.data(), to, false);
        if (training) moments.take(i, rows, const_rows(to));
      }
    });
    if (!training) return;
    y_mean = at::empty({out}, values.options());
    y_variance = at::empty({out}, values.options());
    moments.finish(y_mean.data_ptr<T>(), y_variance.data_ptr<T>());
    move_statistics(after, y_mean, y_variance, pixels);
  });
  middle = scales_of(after, y_mean, y_variance);
  return y;
}

NormGradients Slab::finish(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& sum,
                           const at::Tensor& centred) {
  const NormGradients result{centred * scales.inverse, sum};
  sum_g.narrow(0, 0, sum.numel()).add_(gamma * result.bias);
  sum_g_x_hat.narrow(0, 0, sum.numel()).add_(gamma * result.weight);
  return result;
}

// Sets G. `fill` writes the gradients of some columns of some rows into a panel.
template <class T, class Fill>
NormGradients Slab::first_back(const NormScales& scales, const at::Tensor& gamma, int64_t panel_rows,
                               const Fill& fill) {
  gradients = at::empty_like(values);
  sum_g = at::zeros_like(mean);
  sum_g_x_hat = at::zeros_like(mean);
  const at::Tensor sum = at::zeros_like(mean), centred = at::zeros_like(mean);
  for_columns(filled, [&](int64_t first, int64_t count) {
    Scratch<T> memory(panel_rows * kBlockColumns);
    for (int64_t begin = 0; begin < pixels; begin += panel_rows) {
      const int64_t rows = std::min(panel_rows, pixels - begin);
      for (int64_t c = first; c < first + count; c += kBlockColumns) {
        const int64_t columns = std::min(kBlockColumns, first + count - c);
        const Rows<T> panel{memory.data(), columns};
        fill(begin, rows, c, columns, panel);
        row_kernels<T>().rectify_back_to_slab(rows, columns, panel, const_rows(rows_of<T>(values, c).at(begin)),
                                              scales.columns<T>().at(c), gamma.const_data_ptr<T>() + c, true,
                                              rows_of<T>(gradients, c).at(begin), sum.data_ptr<T>() + c,
                                              centred.data_ptr<T>() + c);
      }
    }
  });
  return finish(scales, gamma, sum, centred);
}

NormGradients Slab::normalised_back(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& gradient) {
  NormGradients result;
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> from = rows_of<T>(gradient);
    result =
        first_back<T>(scales, gamma, kPanel, [&](int64_t begin, int64_t rows, int64_t c, int64_t columns, Rows<T> to) {
          for (int64_t r = 0; r < rows; ++r)
            std::memcpy(to.at(r).data, from.at(begin + r, c).data, static_cast<size_t>(columns) * sizeof(T));
        });
  });
  return result;
}

// A panel is a line of pixels; the last of an odd number belongs to no window.
NormGradients Slab::pooled_back(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& gradient) {
  const int64_t high = nhw[1] / 2, wide = nhw[2] / 2;
  NormGradients result;
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const Rows<T> from = rows_of<T>(gradient);
    result =
        first_back<T>(scales, gamma, nhw[2], [&](int64_t begin, int64_t rows, int64_t c, int64_t columns, Rows<T> to) {
          const int64_t line = begin / nhw[2], picture = line / nhw[1], i = line % nhw[1] / 2;
          for (int64_t j = 0; j < rows; ++j) {
            const bool inside = i < high && j / 2 < wide;
            const T* source = inside ? from.at((picture * high + i) * wide + j / 2, c).data : nullptr;
            for (int64_t k = 0; k < columns; ++k) to.at(j).data[k] = inside ? source[k] * T(0.25) : T(0);
          }
        });
  });
  return result;
}

ProductGradients Slab::product_back(const NormScales& scales, const at::Tensor& gamma, const at::Tensor& kernel,
                                    const at::Tensor& gradient) {
  const int64_t out = kernel.size(0), width = kernel.size(1);
  const at::Tensor sum = at::zeros({width}, gradient.options()), centred = at::zeros({width}, gradient.options()),
                   dw = at::zeros({out, width}, gradient.options());
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const RowKernels<T>& kernels = row_kernels<T>();
    Scratch<T> packed(kernel.numel());
    kernels.pack(out, width, kernel.const_data_ptr<T>(), width, 1, packed.data());
    for_columns(width, [&](int64_t first, int64_t count) {
      Scratch<T> memory(kPanel * kColumns);
      const Rows<T> panel{memory.data(), kColumns};
      Across<T> across(kPanel, out);
      for (int64_t begin = 0; begin < pixels; begin += kPanel) {
        const int64_t rows = std::min(kPanel, pixels - begin);
        const Rows<const T> dy = const_rows(rows_of<T>(gradient).at(begin));
        across.pack(rows, dy);
        for (int64_t c = first; c < first + count; c += kColumns) {
          kernels.multiply(rows, kColumns, out, dy, packed.data() + c * out, panel, false);
          kernels.rectify_back_to_slab(rows, kColumns, panel, const_rows(rows_of<T>(values, c).at(begin)),
                                       scales.columns<T>().at(c), gamma.const_data_ptr<T>() + c, false,
                                       rows_of<T>(gradients, c).at(begin), sum.data_ptr<T>() + c,
                                       centred.data_ptr<T>() + c);
          across.add_product(rows, kColumns, const_rows(panel), rows_of<T>(dw, c));
        }
      }
    });
  });
  return {finish(scales, gamma, sum, centred), dw};
}

at::Tensor Slab::own_gradient(int64_t first, int64_t count) const {
  const at::Tensor result = at::empty({pixels, count}, values.options());
  const auto of = [&](const at::Tensor& all) { return all.narrow(0, first, count); };
  const double share = 1.0 / static_cast<double>(pixels);
  const at::Tensor scale = of(inverse).contiguous(), offset = scale * of(sum_g) * share,
                   slope = scale * scale * of(sum_g_x_hat) * share;
  with_type(values, [&](auto zero) {
    using T = decltype(zero);
    const bool streamed = streams(result);
    for_panels(pixels, [&](int64_t, int64_t begin, int64_t rows) {
      row_kernels<T>().centre_back(rows, count, const_rows(rows_of<T>(gradients, first).at(begin)),
                                   const_rows(rows_of<T>(values, first).at(begin)), mean.data_ptr<T>() + first,
                                   scale.data_ptr<T>(), slope.data_ptr<T>(), offset.data_ptr<T>(),
                                   rows_of<T>(result).at(begin), streamed);
    });
  });
  return result;
}

}  // namespace dtrain
