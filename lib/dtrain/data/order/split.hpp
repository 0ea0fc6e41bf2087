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
  bool by_share = false;           ///< shares or folds of all samples make the parts, not lists, folders or the data
                                   ///< themselves; for a share of what these leave, each patient is in one part anyway
  std::string sha256;              ///< over part and path of every sample
  std::vector<std::string> notes;  ///< one line each for the banner: what is split how
  std::vector<std::string> warnings;  ///< groups that are in two parts ("split leak: …": counts and file names, never
                                      ///< the groups); samples in no part
};

/// By share: each group (by: patient) or sample has a position on a line, by hash64 of (seed, name); the end of the
/// line is the test part, the end of what is left the validation part, or `folds` equal pieces of it are the folds, of
/// which `fold` validates and the others train. So a part follows from seed, name and shares alone: adding data moves
/// no sample, and shares are met on average. With `stratify`, and for synthetic data, which never grow, they are met
/// exactly, also for every class, and as few groups as possible move from their hashed part (group_dealer.hpp). by:
/// order takes the last ones of the natural order for test, those before for valid; folds are contiguous pieces of it.
/// A part whose share is above 0 gets at least one, as long as one is left for training; only then, in tiny sets, may
/// an addition move one. Folds are disjoint, and together make up all but the test part. files: list files with one
/// path or base name per line (`name rest-ignored` too; a byte-order mark is skipped), relative to data.root unless
/// they begin with / ./ ../; a name that is not a sample, or is in two lists, is an error. folders: parts by folder
/// under root.
/// If files or folders name no validation part, or the data have their own parts without one (folders train/ and test/;
/// data.csv.split), `valid` or `fold` is taken from the training samples, or if none are named, from those in no part;
/// each patient stays in one part if patients are known and there are enough. Otherwise the data's own parts
/// (Sample::part) are used unless the split is `given`, which is then reported in `warnings`.
/// In image_folder a group is a guess from the file name: it counts as a patient only if it contains a digit, is not
/// the whole name, and is not the class. Others do not count as leaks; if no name gives a patient, by: patient is
/// refused. Throws MissingError, DataError, ConfigError (a part with a share but without samples, an empty train part,
/// by: patient if the data identify no patients).
Split split_dataset(const Dataset& dataset, const SplitOptions& options);

/// Does the sample's group identify a patient? Not if it is empty, or only a guess (see split_dataset()).
bool tells_patient(const Dataset& dataset, const Sample& sample);

/// What a weights file records about its training part, so that it is not mistaken for unseen data: 12 hex digits of
/// the SHA-256 of each patient, or of a sample's path if it has none, ascending, each once; "" if there are more than
/// 100,000 (1.2 MB). These are not names, but anyone with a list of names can check each.
std::string training_digits(const Dataset& dataset, const Split& split);

/// Those of `samples` whose patient, or path, is among the digits that training_digits() gave.
std::vector<int64_t> samples_among(const std::string& digits, const Dataset& dataset,
                                   const std::vector<int64_t>& samples);

}  // namespace dtrain
