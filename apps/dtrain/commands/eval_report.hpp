#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "commands/eval_fit.hpp"
#include "dtrain/metrics/measure.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// All that an evaluation found out about a part; what is referred to outlives it.
struct EvalResult {
  const EvalCommand& command;  ///< with the file that --checkpoint stands for
  const Plan& plan;
  const std::vector<int64_t>& samples;  ///< of the plan's data, in the order of the predictions
  const Predictions& predictions;
  std::string weights_sha256;
  Groups groups;
  std::vector<NamedValue> values;
  EvalFit fit;
};

/// A file that eval writes into its folder.
struct EvalFile {
  std::string what;                ///< for people, as a list's heading: "predictions"
  std::string name;                ///< predictions_valid.csv
  std::vector<std::string> marks;  ///< for require_own_output()
  std::string (*text)(const EvalResult&) = nullptr;
};

/// Those of a task, in the order in which they are told.
std::vector<EvalFile> eval_files(Task task, const std::string& split);

/// The object of --json, in one line, and of metrics_<split>.json, indented.
std::string result_json(const EvalResult& result, bool in_one_line);

/// Prints everything for people, then what was written, a word and a path each, and with --json the object.
using Written = std::vector<std::pair<std::string, std::string>>;
void print_result(const EvalResult& result, const Written& written);

}  // namespace dtrain
