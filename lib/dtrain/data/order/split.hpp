#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// Which sample belongs to which part: indices into Dataset::samples, ascending. Fixed by data and split options, the
/// same on all ranks, and hashed.
struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> valid;
  std::vector<int64_t> test;
  bool by_share = false;           ///< shares or folds of all samples make the parts, and not lists, folders or what
                                   ///< the data themselves tell; where a share is dealt of what these leave, patients
                                   ///< are whole anyway
  std::string sha256;              ///< over part and path of every sample
  std::vector<std::string> notes;  ///< one line each for the banner: what is split how
  std::vector<std::string> warnings;  ///< groups that stand in two parts ("split leak: …": counts and file names, never
                                      ///< the groups); samples in no part
};

/// By share: each group (by: patient) or sample has a place on a line, by hash64 of (seed, name); the end of the line
/// is the test part, the end of what is left the validation part, or `folds` equal stretches of it are the folds, of
/// which `fold` validates and the others train. So a part follows from seed, name and shares alone: adding data moves
/// nobody, and shares are met on average. With `stratify`, and for synthetic data, to which none is ever added, they
/// are met exactly, those of every class too, and as few as need be leave their place (group_dealer.hpp). by: order
/// takes the last ones of the natural order for test, those before for valid; folds are stretches of it. A part whose
/// share is above 0 gets one at least, as long as one is left for training; only there, in tiny sets, may an addition
/// move one. Folds are disjoint, and together all but the test part. files: list files with one path or base name a
/// line (`name rest-ignored` too; a byte-order mark is skipped), relative to data.root unless they begin with / ./ ../;
/// a name that is no sample, or stands in two lists, is an error. folders: parts by folder under root.
///
/// Where files or folders name no validation part, or the data name parts of their own without one (folders train/ and
/// test/; data.csv.split), `valid` or `fold` is taken from the samples that train, or where none is said to, from those
/// of no part; patients stay whole as far as they are known and enough. Else the data's own parts (Sample::part) are
/// used unless the split is `given`, which is then told in `warnings`.
///
/// In image_folder a group is a guess from the file name: it tells of a patient only where it holds a digit, is less
/// than the whole name, and is not the class. Others are no leak; where no name tells, by: patient is refused.
/// Throws MissingError, DataError, ConfigError (a part with a share but without samples, an empty train part, by:
/// patient where the data tell no patients).
Split split_dataset(const Dataset& dataset, const SplitOptions& options);

/// Is the sample's group evidence of a patient? Not where it is empty, or no more than a guess (see split_dataset()).
bool tells_patient(const Dataset& dataset, const Sample& sample);

/// What a file of weights keeps of its training part, so that nobody takes that for unseen data: 12 hex digits of the
/// SHA-256 of each patient, or path of a sample that tells none, ascending, each once; "" where there are more than
/// 100,000 (1.2 MB). No names, but who has a list of names can ask for each.
std::string training_digits(const Dataset& dataset, const Split& split);

/// Those of `samples` whose patient, or path, is among the digits that training_digits() gave.
std::vector<int64_t> samples_among(const std::string& digits, const Dataset& dataset,
                                   const std::vector<int64_t>& samples);

}  // namespace dtrain
