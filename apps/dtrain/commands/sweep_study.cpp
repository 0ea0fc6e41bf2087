#include "commands/sweep_study.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "dtrain/base/error.hpp"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

// The study file, taken out of the configurations; "" if none of them is one.
std::string take_study_file(std::vector<std::string>& files) {
  std::vector<std::string> studies;
  std::copy_if(files.begin(), files.end(), std::back_inserter(studies), is_study);
  if (studies.empty()) return "";
  if (studies.size() > 1) throw UsageError(studies[0] + " and " + studies[1] + " are both study files; give one");
  if (studies.front() != files.front())
    throw UsageError(studies.front() + " is a study file: give it first, and configurations that change it after it");
  files.erase(files.begin());
  return studies.front();
}

// What was typed stays; what was not comes from the file.
void fill_plan(const StudyDescription& study, SweepCommand& command) {
  const auto typed = [&](const char* name) {
    return std::find(command.typed.begin(), command.typed.end(), name) != command.typed.end();
  };
  if (!typed("--ranks")) command.plan.ranks = study.ranks;
  if (!typed("--repeat")) command.plan.repeat = study.repeat;
  if (!typed("--folds")) command.plan.folds = study.folds;
  if (typed("--over")) return;
  for (const StudyAxis& axis : study.over) command.plan.over.push_back({axis.key, axis.values, axis.beside});
}

}  // namespace

StudySweep with_study_file(const SweepCommand& typed) {
  StudySweep sweep{typed, std::nullopt, 0};
  SweepCommand& command = sweep.command;
  std::vector<std::string>& files = command.config.sources.files;
  const std::string file = take_study_file(files);
  if (file.empty()) {
    if (command.tiny) throw UsageError("--tiny is for study files, such as configs/studies/unet_scaling.yaml");
    return sweep;
  }
  if (command.output.empty())
    command.output = "studies/" + fs::path(file).stem().string() + (command.tiny ? "_tiny" : "");
  const fs::path folder = fs::absolute(command.output).lexically_normal();
  ::setenv(kStudyVariable, folder.c_str(), 1);
  ::setenv(kStudyDataVariable, (folder / "data").c_str(), 1);  // until prepared_data() knows better
  sweep.study = read_study(file, command.tiny);
  const StudyDescription& study = *sweep.study;
  files.insert(files.begin(), study.configurations.begin(), study.configurations.end());
  std::vector<std::string>& overrides = command.config.sources.overrides;
  overrides.insert(overrides.begin(), study.overrides.begin(), study.overrides.end());
  sweep.of_file = study.overrides.size();
  fill_plan(study, command);
  return sweep;
}

void say_what_for(const StudySweep& sweep, StudyAsked& asked) {
  if (!sweep.study) return;
  asked.words.title = sweep.study->title;
  asked.words.expected = sweep.study->expected;
  asked.words.source = sweep.study->source;
}

}  // namespace dtrain
