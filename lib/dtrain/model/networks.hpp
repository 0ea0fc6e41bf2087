#pragma once
#include <memory>

#include "dtrain/model/network.hpp"

namespace dtrain {

/// The four networks with uninitialised weights; make_network() checks the shape first and fills them after.

/// DenseNet-121 (Huang et al., "Densely connected convolutional networks", CVPR 2017), as torchvision's densenet121.
std::shared_ptr<Network> make_densenet121(const NetworkShape& shape);

/// ResNet-50 (He et al., "Deep residual learning for image recognition", CVPR 2016) in the variant 1.5 of torchvision's
/// resnet50: the stride lies in the 3x3 convolution of a block.
std::shared_ptr<Network> make_resnet50(const NetworkShape& shape);

/// UNet (Ronneberger et al., MICCAI 2015) with padded convolutions and BatchNorm: widths base · (1, 2, 4, 8), bridge
/// base · 16.
std::shared_ptr<Network> make_unet(const NetworkShape& shape, int64_t base_width);

/// Five 3x3 convolutions (16, 32, 32, 64, 64) with ReLU, 2x2 max pooling after all but the first, dropout, a dense
/// layer of 128 sized for the picture, and the outputs.
std::shared_ptr<Network> make_small_cnn(const NetworkShape& shape, double dropout);

}  // namespace dtrain
