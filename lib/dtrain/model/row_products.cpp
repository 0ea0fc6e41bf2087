#include "dtrain/model/row_products.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace dtrain {

static constexpr int64_t kEpilogueColumns = 256;  // of a product that wait in cache for their epilogue
static constexpr int64_t kDeep = 2 * kPanel;      // rows of a transposed product that are added up in registers

void apply_in_place(const Epilogue& epilogue, const at::Tensor& rows) {
  with_type(rows, [&](auto zero) {
    using T = decltype(zero);
    const EpiloguePass<T> finished(epilogue, rows, false);
    for_panels(rows.size(0), [&](int64_t, int64_t begin, int64_t count) {
      finished(const_rows(rows_of<T>(rows).at(begin)), count, begin, rows.size(1));
    });
  });
}

// Some columns of a panel at a time wait in cache for their epilogue.
template <class T>
static void multiply_to_epilogue(const at::Tensor& a, const T* packed, const Epilogue& epilogue, const at::Tensor& y) {
  const int64_t depth = a.size(1), columns = y.size(1);
  const EpiloguePass<T> finished(epilogue, y, streams(y));
  at::parallel_for(0, (a.size(0) + kPanel - 1) / kPanel, 1, [&](int64_t first, int64_t last) {
    Scratch<T> memory(kPanel * kEpilogueColumns);
    for (int64_t begin = first * kPanel; begin < std::min(last * kPanel, a.size(0)); begin += kPanel)
      for (int64_t c = 0; c < columns; c += kEpilogueColumns) {
        const int64_t rows = std::min(kPanel, a.size(0) - begin);
        const Rows<T> panel{memory.data(), std::min(kEpilogueColumns, columns - c)};
        row_kernels<T>().multiply(rows, panel.stride, depth, const_rows(rows_of<T>(a).at(begin)), packed + c * depth,
                                  panel, false);
        finished(const_rows(panel), rows, begin, panel.stride, c);
      }
  });
}

at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b, const Epilogue& epilogue) {
  const at::Tensor y = at::empty({a.size(0), b.size(1)}, a.options());
  with_type(a, [&](auto zero) {
    using T = decltype(zero);
    const int64_t depth = b.size(0), columns = b.size(1);
    Scratch<T> packed(b.numel());
    row_kernels<T>().pack(depth, columns, b.const_data_ptr<T>(), b.stride(0), b.stride(1), packed.data());
    if (epilogue.any()) return multiply_to_epilogue<T>(a, packed.data(), epilogue, y);
    const bool streamed = streams(y);
    for_panels(a.size(0), [&](int64_t, int64_t begin, int64_t rows) {
      row_kernels<T>().multiply(rows, columns, depth, const_rows(rows_of<T>(a).at(begin)), packed.data(),
                                rows_of<T>(y).at(begin), streamed);
    });
  });
  return y;
}

int64_t product_workspace(int64_t depth, int64_t columns) {
  return depth * columns + at::get_num_threads() * kPanel * kEpilogueColumns;
}

// Both operands are copied to where the product finds them in order: rows of many channels lie whole pages apart, so
// that those of a panel would share a few places of the cache.
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b) {
  const int64_t height = a.size(1);
  const at::Tensor y = at::zeros({height, b.size(1)}, a.options());
  with_type(a, [&](auto zero) {
    using T = decltype(zero);
    for_columns(b.size(1), [&](int64_t first, int64_t count) {
      Across<T> across(kDeep, height);
      Scratch<T> columns(kDeep * kColumns);
      const Rows<T> panel{columns.data(), kColumns};
      for (int64_t begin = 0; begin < a.size(0); begin += kDeep) {
        const int64_t rows = std::min(kDeep, a.size(0) - begin);
        across.pack(rows, const_rows(rows_of<T>(a).at(begin)));
        for (int64_t c = first; c < first + count; c += kColumns) {
          for (int64_t r = 0; r < rows; ++r)
            std::memcpy(panel.at(r).data, rows_of<T>(b, c).at(begin + r).data, kColumns * sizeof(T));
          across.add_product(rows, kColumns, const_rows(panel), rows_of<T>(y, c));
        }
      }
    });
  });
  return y;
}

int64_t transposed_workspace(int64_t height) {
  return at::get_num_threads() * kDeep * (height + row_kernels<float>().tile_rows + kColumns);
}

}  // namespace dtrain
