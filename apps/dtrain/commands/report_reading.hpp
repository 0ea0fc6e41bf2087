#pragma once
#include <string>
#include <vector>

#include "dtrain/study/report/column_map.hpp"
#include "dtrain/study/report/model.hpp"

namespace dtrain {

/// What is reported, by the words of the command line.
struct ReportedPaths {
  std::vector<std::string> studies;
  std::vector<std::string> runs;
  std::vector<std::string> tables;  ///< of other tools

  size_t count() const { return studies.size() + runs.size() + tables.size(); }
};

/// Says what each path is. Throws, for all that are none of these at once: MissingError, DataError; UsageError for one
/// that is there twice.
ReportedPaths reported_paths(const std::vector<std::string>& words);

/// Reads all of them. Series of runs differ in their configurations; runs of one series in number of ranks, seed and
/// fold. Throws as the readers of the study module.
Report read_report(const ReportedPaths& paths, const std::vector<ColumnMap>& maps);

/// Of one study whose series is called `name` where no value is varied ("" = as read_study() has it).
Report read_study_report(const std::string& folder, const std::string& name);

/// Writes report.html and scaling.csv into a folder, which is made if it is not there. Throws UsageError if files of
/// these names are there that dtrain report did not write.
void write_report(const Report& report, const std::string& folder);

}  // namespace dtrain
