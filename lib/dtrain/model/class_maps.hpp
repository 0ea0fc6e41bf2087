#pragma once
#include <ATen/core/Tensor.h>

namespace dtrain {

class Network;

/// Class activation maps (Zhou et al., "Learning deep features for discriminative localization", CVPR 2016): what each
/// place of the last convolution's result adds to each class's logit. `maps`: PooledPass::maps, [n, C, h, w], of
/// `network`, which ends in pooling → [n, K, h, w] in the same type; their mean over h and w plus the last layer's bias
/// is the logit.
at::Tensor class_activation_maps(const Network& network, const at::Tensor& maps);

}  // namespace dtrain
