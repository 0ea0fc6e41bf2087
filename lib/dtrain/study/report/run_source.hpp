#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/study/run_result.hpp"
#include "dtrain/study/study_file.hpp"

namespace dtrain {

/// A run that is to be reported, and what is known of it beside its own texts.
struct RunSource {
  std::string path = "";    ///< of its folder, or of another tool's table
  std::string name = "";    ///< for people; "" = the last part of the path
  std::string state = "";   ///< as a study has it; "" = finished if there is DONE
  std::string series = "";  ///< of which it is a part
  int64_t ranks = 0;        ///< 0 = as many as run.json has processes
  bool timed = true;        ///< its times say something about so many ranks
  std::optional<int64_t> seed = std::nullopt;
  int64_t fold = 0;      ///< from 1; 0 = without folds
  Monitor monitor = {};  ///< .column "" = the first metric that its epochs have
};

/// What study.yaml and points.csv say, of a folder that dtrain sweep wrote.
struct StudySource {
  std::string name = "";                   ///< of its series where no value is varied
  std::string title = "";                  ///< of its file; else its name, or its folder's where values are varied
  std::vector<RunSource> runs = {};        ///< points that have begun, in their order
  std::vector<std::string> notes = {};     ///< points that failed, or have not begun
  std::optional<AdviceAsked> advice = {};  ///< what it was asked by --advise
  StudyWords words = {};                   ///< of its file
};

/// "b" of "a/b" and of "a/b/".
std::string last_part(const std::string& path);

bool is_study_folder(const std::string& folder);

/// `name`: of the study; "" = as its scaling.csv has it, else its folder's name. Run folders that have moved with the
/// study are found below it. Throws MissingError without points.csv, DataError for one that dtrain sweep did not write.
StudySource read_study(const std::string& folder, const std::string& name = "");

/// A series for each run by its settings (key → value), which differ from the others' if they are another series: the
/// keys that differ with their values, "optimizer.name=sgd, epochs=5"; the first run's name where they are more than
/// three; `one` if all are alike.
std::vector<std::string> series_by_settings(const std::vector<std::map<std::string, std::string>>& settings,
                                            const std::vector<std::string>& names, const std::string& one);

}  // namespace dtrain
