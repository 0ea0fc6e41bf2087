#pragma once
#include <ATen/core/Tensor.h>

/// Products of matrices on the CPU, float or double, in blocks that fit the caches (Goto and van de Geijn 2008); what
/// does not lie in the order in which the loops read it is copied, a block at a time. The result's number of columns is
/// a multiple of kColumns (row_passes.hpp). Each sum has one order: the same bits for any number of threads, and
/// whatever the other rows are.
namespace dtrain {

/// a · b for a [rows, depth] whose rows are dense, b [depth, columns] of any strides.
at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b);
/// aᵀ · b for a [rows, height], b [rows, columns], whose rows are dense.
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace dtrain
