#pragma once
#include <ATen/core/Tensor.h>

/// Products of matrices on the CPU, float or double, in blocks that fit the caches, copied to where the loops find
/// them in order (Goto and van de Geijn 2008). Numbers of columns of both sides and of the result are multiples of
/// kColumns (row_passes.hpp). Each sum has one order: the same bits for any number of threads and of other rows.
namespace dtrain {

/// a · b for a [rows, depth] whose rows are dense, b [depth, columns] of any strides.
at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b);
/// aᵀ · b for a [rows, height], b [rows, columns], whose rows are dense.
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace dtrain
