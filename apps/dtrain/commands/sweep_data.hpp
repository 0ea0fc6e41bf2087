#pragma once
#include <string>

#include "commands/sweep_folder.hpp"
#include "commands/sweep_jobs.hpp"
#include "commands/sweep_study.hpp"

namespace dtrain {

/// What prepared_data() has made for a dry run, in a temporary folder that goes with this object; otherwise nothing.
class StudyData {
 public:
  StudyData() = default;
  explicit StudyData(std::string temporary) : temporary_(std::move(temporary)) {}
  ~StudyData();
  StudyData(const StudyData&) = delete;
  StudyData& operator=(const StudyData&) = delete;
  StudyData(StudyData&& other) noexcept : temporary_(std::move(other.temporary_)) { other.temporary_.clear(); }

  const std::string& folder() const { return temporary_; }  ///< "" = nothing

 private:
  std::string temporary_;
};

/// Makes the data that a study file asks for and that are not there, in the study's folder, which is locked for it:
///
/// data    the generated stand-in: for the tiny variant always, otherwise where data.root is absent and the command
///         line names no other. From then on data.root is this folder.
/// shards  the data in shards, by dtrain pack
///
/// ${DTRAIN_STUDY_DATA} is set to the data root, that of the stand-in or of the user, for this process and its jobs.
/// What an earlier start has made stays as it is. A dry run makes them elsewhere, for the tiny variant alone. Throws
/// MissingError for a dry run that would need more, as SweepFolder::lock(), write_sample_set() and ChildJob; with the
/// code and the last sentence of dtrain pack, where that fails.
StudyData prepared_data(StudySweep& sweep, SweepFolder& folder, const Launcher& launcher, const Log& log);

}  // namespace dtrain
