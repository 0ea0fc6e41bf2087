#pragma once
#include <string>

#include "dtrain/model/network.hpp"

namespace dtrain {

/// Fills parameters and buffers of `network` in place (bindings and memory layout stay) from a safetensors file under
/// torchvision's names: scripts/convert_weights makes them, best.safetensors is one. A head with another number of
/// outputs keeps its initial weights; so do layers of deep supervision that the file lacks, and those that it has in
/// vain are left out, either told in the line below; every other difference is an error, including a first convolution
/// for another number of channels. Returns the one line to print, such as
///   weights imagenet.safetensors: 725 of 727 tensors loaded; left at random: classifier.weight, classifier.bias
///   (1000 → 14)
/// If the network borrows a part (Network::borrowed_part()) and no name of the file has its prefix, the file is taken
/// for one of the network that the part is of: the part is loaded whole, and the rest keeps its initial weights. Older
/// files without `num_batches_tracked`, and the names of Network::current_name(), are understood. F64, F16 and BF16 are
/// converted. Nothing is written before the whole file is known to fit. Throws MissingError, ConfigError for a folder
/// or a training checkpoint, saying what to use instead, DataError listing (capped) the tensors that are missing,
/// unexpected or of another shape or type, with the network whose names they have or what else their names tell, or
/// naming one that holds NaN or Inf.
std::string load_weights(Network& network, const std::string& path);

/// For model.weights: throws ConfigError if `path` is a folder. Called before the whole file is read.
void require_weights_file(const std::string& path);

}  // namespace dtrain
