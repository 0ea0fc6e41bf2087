#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/points.hpp"
#include "dtrain/study/rate_advice.hpp"

namespace dtrain {

/// What a study file says to people; it may change without making another study of it. All empty without a file.
struct StudyWords {
  std::string title = "";
  std::string source = "";                 ///< of the figures
  std::vector<std::string> expected = {};  ///< figures that others have published
};

/// What a study was asked for.
struct StudyAsked {
  SweepPlan plan = {};
  std::map<std::string, std::string> configuration = {};  ///< key → value, of those that are equal in all points
  std::optional<AdviceAsked> advice = std::nullopt;       ///< of dtrain sweep --advise
  StudyWords words = {};
};

/// study.yaml: YAML in which each value stands on one line as JSON, so that it can be read back without a YAML library.
std::string study_yaml(const StudyAsked& asked);

/// What differs from the study that `text`, the contents of the file `name`, describes: one sentence a difference, such
/// as "ranks were [1,2] and are now [1,2,4]"; "" = nothing. Throws DataError for text that study_yaml() did not write.
std::string study_difference(const std::string& text, const std::string& name, const StudyAsked& asked);

/// What `text`, as above, says of the advice; nothing for a study of something else, damaged or not. Throws like
/// study_difference().
std::optional<AdviceAsked> advice_of_study(const std::string& text, const std::string& name);

/// Its words to people. Throws like study_difference().
StudyWords words_of_study(const std::string& text, const std::string& name);

}  // namespace dtrain
