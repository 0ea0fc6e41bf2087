#pragma once
#include <cstdint>

#include "dtrain/model/network.hpp"

namespace dtrain {

/// How the kernels of convolutions start.
enum class KernelStart {
  normal_fan_in,   ///< normal, deviation √(2 ÷ fan in) (He et al. 2015), as torchvision's DenseNet
  normal_fan_out,  ///< normal, deviation √(2 ÷ fan out), as torchvision's ResNet
  uniform,         ///< uniform in ±1 ÷ √(fan in), PyTorch's default of a convolution
};

struct InitialWeights {
  KernelStart kernels = KernelStart::uniform;
  bool zero_dense_bias = false;  ///< else uniform in ±1 ÷ √(fan in), PyTorch's default
};

/// Fills every convolution and dense layer below `network`. Each tensor has its own stream of random numbers, keyed by
/// (seed, its dotted name): a tensor's start does not depend on the others. Norms keep 1 and 0.
void draw_initial_weights(Network& network, const InitialWeights& how, uint64_t seed);

}  // namespace dtrain
