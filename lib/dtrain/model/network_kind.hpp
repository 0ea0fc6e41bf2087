#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/rows.hpp"
#include "dtrain/base/task.hpp"

namespace dtrain {

class Encoder;
class Network;
struct ModelOptions;
struct NetworkShape;

/// How the kernels of convolutions start.
enum class KernelStart {
  normal_fan_in,   ///< normal, deviation √(2 ÷ fan in) (He et al. 2015), as in torchvision's DenseNet
  normal_fan_out,  ///< normal, deviation √(2 ÷ fan out), as torchvision's ResNet
  uniform,         ///< uniform in ±1 ÷ √(fan in), PyTorch's default of a convolution
};

struct InitialWeights {
  KernelStart kernels = KernelStart::uniform;
  bool zero_dense_bias = false;  ///< else uniform in ±1 ÷ √(fan in), PyTorch's default
};

/// Whether a pixel's channels are adjacent in memory (NHWC) or each channel is a plane (NCHW).
enum class PixelLayout { channels_last, channels_first };

/// A network as the rest of the program sees it. Its file defines one beside its layers, networks.cpp lists them, and
/// configuration, checks, documentation and memory format follow. Does not include LibTorch, so that everything may
/// read it.
struct NetworkKind {
  /// For which pictures `dtrain init` proposes a network, of those that serve the task. A sole one needs none.
  enum class ProposedFor { nothing, few_or_small, many };

  std::string name;  ///< as model.name has it
  /// The network with uninitialised weights, for a shape that wrong_size() accepts.
  std::shared_ptr<Network> (*make)(const ModelOptions& options, const NetworkShape& shape) = nullptr;
  InitialWeights start = {};  ///< how its first weights are drawn
  int64_t least_side = 1;     ///< of a picture, in pixels
  int64_t side_multiple = 1;  ///< height and width are multiples of this
  /// Both of these where options change them; absent: they do not.
  int64_t (*side_multiple_by)(const ModelOptions& options) = nullptr;
  bool per_pixel = false;                           ///< logits for each pixel: for segmentation, and no other task
  int64_t image_channels = 3;                       ///< default of data.image.channels, 1 or 3
  ProposedFor proposed_for = ProposedFor::nothing;  ///< one network each
  std::vector<std::string> keys = {};               ///< of model.*, besides those that every network has
  /// The key that makes a pass in training draw random numbers, nullptr if none does. Absent: it never draws any.
  const char* (*random_by)(const ModelOptions& options) = nullptr;
  /// All of the network before its last layers, for pictures of so many channels, as model.encoder of another one.
  /// Absent: it cannot be that.
  std::shared_ptr<Encoder> (*encoder)(int64_t channels) = nullptr;
  /// For loss.deep_supervision: at how many resolutions below the picture's, each half of the one before, it can give
  /// logits in training. Absent: none.
  int64_t (*lower_logits)(const ModelOptions& options) = nullptr;
  /// Fixed, never found by a probe: the bits depend on them.
  PixelLayout on_cpu = PixelLayout::channels_last;
  PixelLayout on_gpu = PixelLayout::channels_last;

  bool serves(Task task) const { return per_pixel == (task == Task::segmentation); }
};

/// All of them, in the order in which they are offered. The first is the default.
const RowList<NetworkKind>& networks();
/// Never null: throws InternalError if no network has that name.
inline const NetworkKind* network_kind(const std::string& name) { return row_named(networks(), name); }

/// Those that can be the encoder of another, in the same order.
const RowList<NetworkKind>& encoders();

/// What height and width of a picture are multiples of, and the default of data.image.channels, for these options.
int64_t side_multiple_of(const ModelOptions& options);
int64_t image_channels_of(const ModelOptions& options);

/// What is wrong with pictures of this size for the network, as a sentence that names `key`; "" when nothing is.
std::string wrong_size(const ModelOptions& options, int64_t height, int64_t width, const std::string& key);

/// NetworkKind::lower_logits of options.kind; 0 where it has none.
int64_t lower_logits_of(const ModelOptions& options);

/// The key of ModelOptions::kind that makes a pass in training draw random numbers; "" when it draws none.
std::string random_key_of(const ModelOptions& options);

/// Those that predict per pixel, as a sentence names them: "the a and b".
std::string per_pixel_networks();

}  // namespace dtrain
