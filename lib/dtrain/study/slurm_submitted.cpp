#include "dtrain/study/slurm_submitted.hpp"

#include <charconv>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/csv.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

int64_t size_at(const CsvTable& table, int64_t row, const char* column) {
  const std::string& text = table.at(row, table.column(column));
  int64_t bytes = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes < 0)
    throw DataError(table.name() + ":" + std::to_string(table.line(row)) + ": " + column + " is no size");
  return bytes;
}

}  // namespace

std::string submitted_csv(const SubmittedPoints& points) {
  std::string text = "point,job,log_bytes,output_bytes\n";
  for (const auto& [point, its] : points)
    text +=
        join({csv_field(point), csv_field(its.job), std::to_string(its.log_bytes), std::to_string(its.output_bytes)},
             ",") +
        "\n";
  return text;
}

SubmittedPoints read_submitted(const std::string& path) {
  SubmittedPoints points;
  if (!is_there(path)) return points;
  const CsvTable table = CsvTable::read(path);
  for (int64_t row = 0; row < table.rows(); ++row)
    points[table.at(row, table.column("point"))] = {.job = table.at(row, table.column("job")),
                                                    .log_bytes = size_at(table, row, "log_bytes"),
                                                    .output_bytes = size_at(table, row, "output_bytes")};
  return points;
}

}  // namespace dtrain
