#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// Generated pictures for a study whose data are not there: the arguments of write_sample_set().
struct StandIn {
  std::string kind = "";  ///< xray, chips, cells
  int64_t count = 0;      ///< 0 = the kind's default
  int64_t height = 0;     ///< 0 = the kind's own
  int64_t width = 0;
};

/// The data of a study in shards too: options of dtrain pack.
struct PackedCopy {
  std::string to = "";  ///< "" = the default
  int64_t samples_per_shard = 256;
  std::vector<std::string> expand = {};
};

/// One key that a study varies.
struct StudyAxis {
  std::string key = "";
  std::vector<std::string> values = {};  ///< as --over takes them
  bool beside = false;                   ///< its values belong to those of the axis before, first to first
};

/// What a study file asks for.
struct StudyDescription {
  std::string title = "";
  std::vector<std::string> configurations = {};  ///< files, in order: later ones win
  std::vector<std::string> overrides = {};       ///< key=value, as on the command line
  std::vector<int64_t> ranks = {1};
  std::vector<StudyAxis> over = {};
  int64_t repeat = 1;
  int64_t folds = 0;
  std::optional<StandIn> sample = std::nullopt;
  std::optional<PackedCopy> pack = std::nullopt;
  std::vector<std::string> expected = {};  ///< figures that others have published, a sentence each
  std::string source = "";                 ///< of these figures
};

/// In values of a study file and of its configurations: the folder of the study, and that of its data.
inline constexpr const char* kStudyVariable = "DTRAIN_STUDY";
inline constexpr const char* kStudyDataVariable = "DTRAIN_STUDY_DATA";

/// Whether a file is a study: it has a key at its top that only studies have. False for a file that cannot be read, or
/// not as YAML: whoever takes it for a configuration says why.
bool is_study(const std::string& path);

/// Reads a study file. `tiny`: what its section `tiny` says takes the place of the rest, its overrides come on top.
/// Every key and value of the configuration that the file names is checked. Throws like load_config(), with
/// file:line:column for each error; UsageError for a file without such a section.
StudyDescription read_study(const std::string& path, bool tiny);

}  // namespace dtrain
