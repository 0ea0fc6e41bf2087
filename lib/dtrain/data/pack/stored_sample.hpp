#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/data/pack/pack.hpp"

namespace dtrain {

/// A sample's pixels as pack.hpp stores them.
struct StoredSample {
  Image picture;
  std::optional<Image> mask;  ///< segmentation
};

/// Reads, decodes and resizes a sample. Throws as read_sample_files() and decode_picture().
StoredSample stored_sample(const Dataset& dataset, const DataOptions& data, int64_t index);

/// The sample mirrored or turned, its mask with it.
StoredSample turned(const StoredSample& sample, PackTurn turn);

/// The sample's name; for a copy with its turn appended: "a/b.png@rot90".
std::string stored_path(const Sample& sample, PackTurn turn);

}  // namespace dtrain
