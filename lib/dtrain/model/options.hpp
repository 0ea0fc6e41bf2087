#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// `precision:` of the configuration: the numbers in which the network computes. Weights, their gradients, the loss and
/// all sums are float32 with each of them.
enum class Precision {
  fp32,
  tf32,  ///< on a GPU operands of convolutions and matrix products are rounded to TF32; on a CPU the same as fp32
  bf16,  ///< convolutions and matrix products in bfloat16, and what lies between them
  fp16,  ///< the same in float16, with a scaled loss (optim/loss_scale.hpp)
};

enum class NetworkName { densenet121, resnet50, unet, small_cnn };

/// `model:` of the configuration.
struct ModelOptions {
  NetworkName name = NetworkName::densenet121;
  std::optional<int64_t> outputs;  ///< logits per image (unet: per pixel); default: the number of classes in the data
  std::string weights;             ///< safetensors file to start from; "" = random start
  int64_t base_width = 8;          ///< unet: channels of the first block; 16 × this at the bridge
  double dropout = 0.5;            ///< small_cnn: probability of dropping a feature before the dense layer, [0, 1)
};

enum class LossName { automatic, bce, cross_entropy };

/// `loss:` of the configuration.
struct LossOptions {
  enum class PosWeight { none, balanced, list };
  LossName name = LossName::automatic;  ///< auto: bce for multilabel and segmentation, cross_entropy for multiclass
  PosWeight pos_weight_kind = PosWeight::none;  ///< balanced: negatives ÷ positives of each label in the training part
  std::vector<double> pos_weight;               ///< with `list`: one factor per output on the positive term; bce
  double l2_kernels = 0;                        ///< λ of λ·Σw² over convolution kernels, added to the loss
  double label_smoothing = 0;                   ///< cross_entropy, [0, 1)
};

}  // namespace dtrain
