// LibTorch's headers on top of the standard ones: those of Tensor and of the operators that many files use, since each
// file compiles again the templates that a precompiled header's inline functions use. Not ATen/ATen.h, which has all
// operators; nor torch/nn or torch/csrc/autograd, whose templates take 2 s a file. from_blob.h must come before a
// `using namespace dtrain`, with which its Device would be ambiguous.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "code.hpp"
