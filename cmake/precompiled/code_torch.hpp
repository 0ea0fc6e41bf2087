// LibTorch's headers on top of the standard ones. Not torch/nn or torch/csrc/autograd: a precompiled header hands every
// file the templates that its inline functions use, to be compiled again, which for these two takes 2 s a file.
#pragma once
#include <ATen/ATen.h>

#include "code.hpp"
