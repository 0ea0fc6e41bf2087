#pragma once
#include <cstdint>

#include "dtrain/model/network.hpp"

namespace dtrain {

/// Fills every convolution and dense layer below `network`. Each tensor has its own stream of random numbers, keyed by
/// (seed, its dotted name): a tensor's start does not depend on the others. Norms keep 1 and 0.
void draw_initial_weights(Network& network, const InitialWeights& how, uint64_t seed);

}  // namespace dtrain
