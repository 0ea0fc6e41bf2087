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

/// By fraction: groups (by: patient) or samples ordered by hash64 of (seed, name); in that order each one that brings
/// `valid` nearer to its count goes there, then the same of the others for `test`; by: order takes the last ones of the
/// natural order for test, those before for valid. A part whose share is above 0 gets one at least, as long as one is
/// left for training. files: list files with one path or base name a line (`name rest-ignored` too; a byte-order mark
/// is skipped), relative to data.root unless they begin with / ./ ../; a name that is no sample, or stands in two
/// lists, is an error. folders: parts by folder under root.
/// Where `given` is false and root holds train/ and valid/ or val/, those are used (Sample::part).
///
/// In image_folder a group is a guess from the file name: it tells of a patient only where it holds a digit, is less
/// than the whole name, and is not the class. Others are no leak; where no name tells, by: patient is refused.
/// Throws MissingError, DataError, ConfigError (a part with a share but without samples, an empty train part, by:
/// patient where the data tell no patients).
Split split_dataset(const Dataset& dataset, const SplitOptions& options);

}  // namespace dtrain
