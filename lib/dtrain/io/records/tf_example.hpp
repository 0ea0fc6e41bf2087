#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/io/records/field_values.hpp"
#include "dtrain/io/records/record_file.hpp"

namespace dtrain {

// tf.train.Example: a protobuf message, features { feature: map<string, Feature> }, where a Feature is a list of byte
// strings, floats or int64s. It is read in place, so that finding a label does not read the picture beside it: hence no
// protobuf library, which wants all bytes of a message in memory.

/// Where a feature's value is.
struct FeaturePlace {
  std::string name;
  int64_t offset = 0;  ///< of the Feature message
  int64_t size = 0;
};

/// The features of the Example of `size` bytes at `offset`, in the order of their names. Of several of one name the
/// last counts, as protobuf has it. `name` begins messages. Throws DataError for what is no Example (a
/// SequenceExample is named), for lengths that reach beyond it, more than 10,000 features and names over 1 KiB.
std::vector<FeaturePlace> find_features(ByteWindow& bytes, int64_t offset, int64_t size, const std::string& name);

/// The values of a feature of at most 1 MiB: byte strings as texts, int64s and floats as numbers; packed or not.
/// Throws DataError as find_features().
FieldValues read_feature(ByteWindow& bytes, const FeaturePlace& feature, const std::string& name);

/// Where the one byte string of a feature is: offset and size. Throws DataError if it holds none, several, or
/// numbers.
struct ByteRange {
  int64_t offset = 0;
  int64_t size = 0;
};
ByteRange byte_string(ByteWindow& bytes, const FeaturePlace& feature, const std::string& name);

}  // namespace dtrain
