#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/words.hpp"
#include "dtrain/model/loss_kind.hpp"
#include "dtrain/model/network_kind.hpp"

namespace dtrain {

/// `precision:` of the configuration: the number format in which the network computes. Weights, their gradients, the
/// loss and all sums are float32 with each of them.
enum class Precision {
  fp32,
  tf32,  ///< on a GPU operands of convolutions and matrix products are rounded to TF32; on a CPU the same as fp32
  bf16,  ///< convolutions and matrix products in bfloat16, and what lies between them
  fp16,  ///< the same in float16, with a scaled loss (optim/loss_scale.hpp)
};

template <>
inline constexpr auto kWordsOf<Precision> = std::to_array<Word<Precision>>(
    {{Precision::fp32, "fp32"}, {Precision::tf32, "tf32"}, {Precision::bf16, "bf16"}, {Precision::fp16, "fp16"}});

/// `model:` of the configuration. A network's row says whether it reads base_width, levels, encoder and dropout.
struct ModelOptions {
  const NetworkKind* kind = networks().front();  ///< model.name; never null
  /// Logits per picture, or per pixel if the network predicts per pixel; default: the number of classes in the data.
  std::optional<int64_t> outputs;
  std::string weights;     ///< safetensors file to start from; "" = random start
  int64_t base_width = 8;  ///< channels of the first block, at least 1
  int64_t levels = 4;      ///< how often the picture is halved, at least 1
  /// model.encoder, one of encoders(); null = none. With one base_width and levels have no effect.
  const NetworkKind* encoder = nullptr;
  double dropout = 0.5;           ///< probability of dropping a feature before the dense layer, [0, 1)
  bool fused = true;              ///< layers in passes of our own instead of LibTorch's operators one by one
  bool fast_convolutions = true;  ///< where speeds_convolutions(): Module::speed_convolutions()
};

/// Whether the network has convolutions that fast_convolutions changes.
bool speeds_convolutions(const ModelOptions& options);

/// Factors on the loss of each output, `loss.pos_weight` or `loss.class_weight`.
struct OutputWeights {
  enum class From { none, balanced, list };
  From from = From::none;    ///< balanced: from the labels of the training part (loss.hpp)
  std::vector<double> list;  ///< with `list`: one factor per output, above 0
};

/// The samples over which a loss that is a function of sums (LossKind::sums) takes them in training.
enum class SumsOver {
  global,  ///< the whole step's, over all logical ranks: the loss and its gradient do not depend on how V cuts a batch
  per_rank,  ///< those of one pass of one logical rank; the step's loss is the mean over them
};

template <>
inline constexpr auto kWordsOf<SumsOver> = std::to_array<Word<SumsOver>>({{SumsOver::global, "global"},
                                                                          {SumsOver::per_rank, "per_rank"}});

/// `loss:` of the configuration.
struct LossOptions {
  const LossKind* kind = nullptr;         ///< loss.name; null = auto: natural_loss() of the task
  OutputWeights pos_weight;               ///< on the positive term of each output
  OutputWeights class_weight;             ///< on the samples of each class
  double gamma = 2;                       ///< exponent of 1 - the probability of the true label, ≥ 0
  SumsOver sums_over = SumsOver::global;  ///< loss.dice
  bool deep_supervision = false;          ///< the loss at lower resolutions too (deep_supervision.hpp), in training
  double l2_kernels = 0;                  ///< λ of λ·Σw² over convolution kernels, added to the loss
  double label_smoothing = 0;             ///< share of the target spread evenly over all classes, [0, 1)
};

}  // namespace dtrain
