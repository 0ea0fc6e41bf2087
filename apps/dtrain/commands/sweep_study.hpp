#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "dtrain/config/study_description.hpp"
#include "dtrain/study/study_file.hpp"
#include "line/command_line.hpp"

namespace dtrain {

/// A sweep as its study file and the command line describe it together.
struct StudySweep {
  SweepCommand command;                   ///< of both: what stands on the line wins
  std::optional<StudyDescription> study;  ///< nothing: there is no study file
  size_t of_file = 0;                     ///< how many of the overrides, the first ones, are the study file's
};

/// Reads the study file among the command's configurations, if there is one; others count on top of those that it
/// names. With one, the output is known (studies/STEM, or studies/STEM_tiny), and ${DTRAIN_STUDY} is set to it for this
/// process and its jobs, ${DTRAIN_STUDY_DATA} to its folder data. Throws like read_study(); UsageError for two study
/// files, and for --tiny without one.
StudySweep with_study_file(const SweepCommand& typed);

/// What the study file says to people becomes part of what is asked.
void say_what_for(const StudySweep& sweep, StudyAsked& asked);

}  // namespace dtrain
