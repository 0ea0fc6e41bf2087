#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/data/dataset.hpp"

namespace dtrain {

/// Which sample belongs to which part: indices into Dataset::samples, ascending. Fixed by data and split options, the
/// same on all ranks, and hashed.
struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> valid;
  std::vector<int64_t> test;
  std::string sha256;                 ///< over part and path of every sample
  std::vector<std::string> warnings;  ///< groups that stand in two parts ("split leak: …": counts and file names, never
                                      ///< the groups); samples in no part
};

/// By fraction: groups (by: patient) or samples ordered by hash64 of (seed, name); the first ones are `valid`, the next
/// `test`, up to the nearest count; by: order takes the last ones of the natural order for test, those before for
/// valid. files: list files with one path or base name a line (`name rest-ignored` too), relative to data.root unless
/// they begin with / ./ ../; a name that is no sample, or stands in two lists, is an error. folders: parts by folder
/// under root.
/// Where `given` is false and root holds train/ and valid/ or val/, those are used (Sample::part).
///
/// In image_folder a group is a guess from the file name, so a shared one counts as a leak only where it holds a digit,
/// is less than the whole name, and is not the class.
/// Throws MissingError, DataError, ConfigError (an empty train part, by: patient where the data tell no patients).
Split split_dataset(const Dataset& dataset, const SplitOptions& options);

}  // namespace dtrain
