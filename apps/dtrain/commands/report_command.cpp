// dtrain report: what runs left in their folders, and tables of other tools, as one page, a table and sentences.
#include <algorithm>
#include <cstdio>

#include "commands/commands.hpp"
#include "commands/report_map.hpp"
#include "commands/report_reading.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/report/report_text.hpp"

namespace dtrain {
namespace {

std::vector<ColumnMap> read_maps(const std::vector<std::string>& files) {
  std::vector<ColumnMap> maps;
  std::vector<Error> errors;
  for (const std::string& file : files) {
    try {
      maps.push_back(read_column_map(file));
    } catch (const Error& error) {
      errors.push_back(error);
    }
  }
  if (!errors.empty()) throw merge_errors(errors);
  return maps;
}

// The folder that holds the study, or the run, unless another is named.
std::string output_of(const ReportCommand& command, const ReportedPaths& paths) {
  if (!command.output.empty()) {
    if (is_there(command.output) && is_file(command.output))
      throw UsageError("--output '" + command.output + "' is a file; name a folder");
    return command.output;
  }
  if (paths.count() == 1 && paths.tables.empty())
    return paths.studies.empty() ? paths.runs.front() : paths.studies.front();
  throw UsageError(
      "a report of several, or of other tools' tables, belongs to none of their folders: name one with --output DIR, "
      "or "
      "print it with --text");
}

// The first ones; the page has all.
void tell_notes(const Report& report, const Log& log) {
  constexpr size_t kMost = 10;
  std::vector<std::string> notes;
  if (report.study) notes = report.study->notes;
  for (const ReportedRun& run : report.runs) notes.insert(notes.end(), run.notes.begin(), run.notes.end());
  for (size_t i = 0; i < std::min(kMost, notes.size()); ++i) log.info(notes[i]);
  if (notes.size() > kMost) log.info("… and " + std::to_string(notes.size() - kMost) + " more notes, in the page");
}

}  // namespace

int run_report(const ReportCommand& command, const Log& log) {
  const ReportedPaths paths = reported_paths(command.paths);
  const std::vector<ColumnMap> maps = read_maps(command.maps);
  if (!paths.tables.empty() && maps.empty())
    throw UsageError(paths.tables.front() +
                     " is a file: tables of other tools need --map FILE.yaml, which says what their columns are");
  if (paths.tables.empty() && !maps.empty())
    throw UsageError("--map is for tables of other tools, and no such file is given");
  const std::string output = command.text ? "" : output_of(command, paths);
  const Report report = read_report(paths, maps);
  if (command.text) {
    for (const std::string& line : report_text(report)) std::printf("%s\n", printable(line).c_str());
    return exit_code::kDone;
  }
  write_report(report, output);
  tell_notes(report, log);
  log.info("written: " + output + "/report.html, " + output + "/scaling.csv; next: open the page in a browser");
  return exit_code::kDone;
}

}  // namespace dtrain
