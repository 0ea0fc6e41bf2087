#include "dtrain/study/report/column_map.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <regex>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/study/report/reported_run.hpp"

namespace dtrain {
namespace {

constexpr std::array kFixed = {"samples",     "train_loss",   "valid_loss",   "learning_rate", "epoch_seconds",
                               "elapsed_s",   "images_per_s", "data_wait_s",  "compute_s",     "allreduce_s",
                               "imbalance_s", "update_s",     "valid_seconds"};
constexpr int64_t kMostOfTool = 1'000'000;

std::string file_name(const std::string& file) { return std::filesystem::path(file).filename().string(); }

std::optional<int64_t> ranks_in(const std::string& text) {
  int64_t ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1 || ranks > kMostOfTool) return std::nullopt;
  return ranks;
}

std::optional<std::string> group_of(const std::string& pattern, const std::string& name) {
  std::smatch match;
  if (!std::regex_match(name, match, std::regex(pattern))) return std::nullopt;
  return match[1].str();
}

int64_t column_in(const CsvTable& table, const std::string& theirs, const ColumnMap& map) {
  if (const auto column = table.find_column(theirs)) return *column;
  throw MissingError(table.name() + " has no column '" + theirs + "', which " + map.name + " names; it has " +
                     join(table.columns(), ", "));
}

int64_t ranks_of(const CsvTable& table, const ColumnMap& map) {
  if (!map.ranks.empty()) {
    const std::string text = group_of(map.ranks, file_name(table.name())).value_or("");
    if (const auto ranks = ranks_in(text)) return *ranks;
    throw DataError(table.name() + ": the number of ranks in its name is '" + text + "', not a whole number above 0");
  }
  const int64_t column = column_in(table, map.ranks_column, map);
  for (int64_t row = 0; row < table.rows(); ++row)
    if (table.at(row, column) != table.at(0, column))
      throw DataError(table.name() + ", line " + std::to_string(table.line(row)) +
                      ": another number of ranks than above; give one file for each run");
  const std::string text = table.rows() > 0 ? std::string(trimmed(table.at(0, column))) : "";
  if (const auto ranks = ranks_in(text)) return *ranks;
  throw DataError(table.name() + ": the number of ranks in column '" + map.ranks_column +
                  "' is not a whole number above 0");
}

void take_column(const CsvTable& table, int64_t column, const std::string& ours, RunRecord& run) {
  std::vector<double>& values = run.epochs.add_column(ours);
  std::optional<FileFault> fault;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::optional<double> value = number_or_nan(table.at(row, column));
    values[static_cast<size_t>(row)] = value.value_or(std::nan(""));
    if (value) continue;
    if (fault) ++fault->more;
    if (!fault)
      fault = FileFault{table.name(), table.name() + ", line " + std::to_string(table.line(row)) + ": '" +
                                          table.columns()[static_cast<size_t>(column)] + "' is not a number"};
  }
  if (fault) run.faults.push_back(*fault);
}

}  // namespace

bool is_known_column(const std::string& ours) {
  return std::find(kFixed.begin(), kFixed.end(), ours) != kFixed.end() || ours.starts_with("train_") ||
         ours.starts_with("valid_");
}

std::vector<std::string> mapped_columns() { return {kFixed.begin(), kFixed.end()}; }

std::string why_no_ranks_pattern(const std::string& pattern) {
  constexpr size_t kLongest = 1000;  // the library's parser recurses
  if (pattern.size() > kLongest) return "is longer than " + std::to_string(kLongest) + " letters";
  try {
    const std::regex regex(pattern);
    if (regex.mark_count() == 1) return "";
    return "needs one group, the number of ranks, as in 'log_(\\d+)\\.csv', and has " +
           std::to_string(regex.mark_count());
  } catch (const std::regex_error&) {
    return "is not a regular expression, such as 'log_(\\d+)\\.csv'";
  }
}

const ColumnMap& map_of(const std::vector<ColumnMap>& maps, const std::string& file) {
  std::vector<const ColumnMap*> fitting;
  for (const ColumnMap& map : maps)
    if (!map.ranks.empty() && group_of(map.ranks, file_name(file))) fitting.push_back(&map);
  if (fitting.empty())
    for (const ColumnMap& map : maps)
      if (map.ranks.empty()) fitting.push_back(&map);
  std::vector<std::string> names;
  for (const ColumnMap* map : fitting.empty() ? std::vector<const ColumnMap*>{} : fitting) names.push_back(map->name);
  if (fitting.size() > 1) throw UsageError(file + " fits several maps: " + join(names, ", ") + "; report them apart");
  if (!fitting.empty()) return *fitting.front();
  for (const ColumnMap& map : maps) names.push_back(map.name + " (ranks: '" + map.ranks + "')");
  throw UsageError("the name of " + file + " does not fit " + join_last(names, "or"));
}

ReportedRun read_other_table(const std::string& file, const ColumnMap& map) {
  const CsvTable table = CsvTable::read(file);
  RunRecord run;
  run.folder = file;
  run.done = true;
  run.epochs.columns = {"epoch"};
  run.epochs.values.resize(1);
  for (int64_t row = 0; row < table.rows(); ++row) run.epochs.values[0].push_back(static_cast<double>(row + 1));
  for (const auto& [theirs, ours] : map.columns) take_column(table, column_in(table, theirs, map), ours, run);
  RunSource source{.path = file, .name = file_name(file), .series = map.series, .ranks = ranks_of(table, map)};
  ReportedRun report = reported_run(run, source, map.steady);
  report.other_tool = true;
  report.manifest.clear();
  return report;
}

}  // namespace dtrain
