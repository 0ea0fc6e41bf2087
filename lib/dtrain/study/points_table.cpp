#include "dtrain/study/points_table.hpp"

#include <charconv>
#include <optional>

#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {
namespace {

std::string number(const std::optional<double>& value) { return value ? shortest(*value) : ""; }
std::string number(int64_t value, bool known) { return known ? std::to_string(value) : ""; }

std::string line_of(std::vector<std::string> fields) {
  for (std::string& field : fields) field = csv_field(field);
  return join(fields, ",") + "\n";
}

// The seed has a column of its own.
bool has_column(const SweepAxis& axis) { return axis.key != "seed"; }

std::vector<std::string> fields_of(const SweepPlan& plan, const SweepRow& row) {
  const RunResult& run = row.result;
  std::vector<std::string> fields = {row.point.name, std::to_string(row.point.ranks), std::to_string(row.point.seed),
                                     number(row.point.fold, row.point.fold > 0)};
  for (size_t i = 0; i < plan.over.size(); ++i)
    if (has_column(plan.over[i])) fields.push_back(row.point.values[i]);
  const auto timed = [&](const std::optional<double>& value) { return row.timed() ? number(value) : ""; };
  const bool ended = row.state == PointState::done || row.state == PointState::failed;
  fields.insert(fields.end(),
                {name_of(row.state), number(row.exit_code, ended), row.run_dir, std::to_string(row.processes),
                 std::to_string(row.jobs), std::to_string(run.epochs), row.monitor.column, number(run.best),
                 number(run.best_epoch, run.best_epoch > 0), timed(run.images_per_s), timed(run.epochs_per_hour),
                 timed(run.elapsed_s), run.result_sha256, series_of(plan, row.point), row.message});
  return fields;
}

}  // namespace

std::string points_csv(const SweepPlan& plan, const std::vector<SweepRow>& rows) {
  std::vector<std::string> header = {"point", "ranks", "seed", "fold"};
  for (const SweepAxis& axis : plan.over)
    if (has_column(axis)) header.push_back(axis.key);
  header.insert(header.end(),
                {"state", "exit_code", "run_dir", "processes", "jobs", "epochs_done", "metric", "best", "best_epoch",
                 "images_per_s", "epochs_per_hour", "elapsed_s", "result_sha256", "series", "message"});
  std::string text = line_of(header);
  for (const SweepRow& row : rows) text += line_of(fields_of(plan, row));
  return text;
}

std::map<std::string, EarlierPoint> earlier_points(const std::string& path) {
  const CsvTable table = CsvTable::read(path);
  const int64_t point = table.column("point");
  const int64_t state = table.column("state");
  const int64_t code = table.column("exit_code");
  const int64_t message = table.column("message");
  const std::optional<int64_t> jobs = table.find_column("jobs");
  const auto number_at = [&](int64_t row, int64_t column, auto& number) {
    const std::string& digits = table.at(row, column);
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
  };
  std::map<std::string, EarlierPoint> points;
  for (int64_t row = 0; row < table.rows(); ++row) {
    EarlierPoint& one = points[table.at(row, point)];
    if (jobs) number_at(row, *jobs, one.jobs);
    one.failed = table.at(row, state) == name_of(PointState::failed);
    if (!one.failed) continue;
    number_at(row, code, one.exit_code);
    one.message = table.at(row, message);
  }
  return points;
}

}  // namespace dtrain
