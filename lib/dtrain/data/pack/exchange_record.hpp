#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/data/pack/stored_sample.hpp"

namespace dtrain {

/// One sample as the bytes that a TFRecord file or a tar archive gets for it, under the names that other programs use:
///
/// TFRecord  image/encoded, image/format, image/filename, image/height, image/width; image/class/label, a number, with
///           image/class/text, or, multilabel, floats (NaN: unknown); image/group where there is one;
///           image/segmentation/class/encoded.
/// tar       KEY.png or KEY.jpg; KEY.cls, a number; KEY.seg.png; KEY.json with path, group and label (multilabel: a
///           list, null for unknown). KEY is the record's number in its part, nine digits.
///
/// Pictures are PNG files, or JPEG with that codec; masks are PNG files of class numbers. Throws DataError for pictures
/// of 16 bits.
class ExchangeRecords {
 public:
  ExchangeRecords(const Dataset& dataset, const PackOptions& options) : dataset_(dataset), options_(options) {}

  /// `number`: of the record in its part, from 0.
  std::vector<std::byte> make(const StoredSample& stored, const PackShard::Item& item, int64_t number) const;
  /// What follows the last record of a file.
  std::vector<std::byte> end() const;

 private:
  std::vector<std::byte> example(const StoredSample& stored, const PackShard::Item& item) const;
  std::vector<std::byte> members(const StoredSample& stored, const PackShard::Item& item, int64_t number) const;
  std::vector<std::byte> encoded(const Image& picture, const std::string& path) const;
  bool is_jpeg() const { return options_.codec == PackedCodec::jpeg; }
  /// Empty if the data have none.
  std::string group_of(const Sample& sample) const;

  const Dataset& dataset_;
  PackOptions options_;
};

}  // namespace dtrain
