#include "dtrain/study/report/rank_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "dtrain/study/median.hpp"

namespace dtrain {
namespace {

/// What one rank did over the epochs that count.
struct RankSums {
  int64_t epochs = 0;
  int64_t slow_epochs = 0;
  double compute_s = 0;
  double data_wait_s = 0;
  double allreduce_s = 0;
  double to_median = 0;
  std::vector<double> medians;
  double p95 = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> memory_mb;
};

/// The columns of ranks.csv by row; a value that it lacks is 0.
class Rows {
 public:
  explicit Rows(const NumberTable& table) : table_(table) {}
  size_t count() const { return table_.rows(); }
  std::optional<double> known(size_t row, const char* name) const {
    const std::optional<double> value = table_.at(row, name);
    return value && std::isfinite(*value) ? value : std::nullopt;
  }
  double at(size_t row, const char* name) const { return known(row, name).value_or(0); }
  double busy(size_t row) const { return at(row, "compute_s") + at(row, "data_wait_s"); }

 private:
  const NumberTable& table_;
};

void add_row(const Rows& rows, size_t row, double median_busy, RankSums& sums) {
  ++sums.epochs;
  sums.compute_s += rows.at(row, "compute_s");
  sums.data_wait_s += rows.at(row, "data_wait_s");
  sums.allreduce_s += rows.at(row, "allreduce_s");
  const double ratio = median_busy > 0 ? rows.busy(row) / median_busy : 1;
  sums.to_median += ratio;
  if (ratio > kSlowRank) ++sums.slow_epochs;
  if (const auto median_ms = rows.known(row, "step_ms_median")) sums.medians.push_back(*median_ms);
  if (const auto p95 = rows.known(row, "step_ms_p95")) sums.p95 = std::fmax(sums.p95, *p95);
  if (const auto memory = rows.known(row, "memory_peak_mb")) sums.memory_mb = memory;
}

RankTime mean_time_of(int64_t rank, const RankSums& sums, const RunRecord& run) {
  const auto epochs = static_cast<double>(sums.epochs);
  RankTime time{.rank = rank,
                .compute_s = sums.compute_s / epochs,
                .data_wait_s = sums.data_wait_s / epochs,
                .allreduce_s = sums.allreduce_s / epochs,
                .step_ms_median = median_of(sums.medians).value_or(std::numeric_limits<double>::quiet_NaN()),
                .step_ms_p95 = sums.p95,
                .to_median = sums.to_median / epochs};
  if (rank < static_cast<int64_t>(run.host_of_rank.size())) time.host = run.host_of_rank[static_cast<size_t>(rank)];
  time.slow = time.to_median > kSlowRank && 2 * sums.slow_epochs > sums.epochs;
  time.memory_peak_mb = sums.memory_mb;
  return time;
}

}  // namespace

std::vector<RankTime> rank_times_of(const RunRecord& run) {
  const Rows rows(run.ranks);
  std::map<double, std::vector<size_t>> epochs;  // rows of each
  for (size_t row = 0; row < rows.count(); ++row)
    if (const auto epoch = rows.known(row, "epoch"); epoch && rows.known(row, "rank").value_or(-1) >= 0)
      epochs[*epoch].push_back(row);
  if (epochs.size() > 1) epochs.erase(epochs.begin());  // start-up and warming caches
  std::map<int64_t, RankSums> ranks;
  for (const auto& [epoch, its] : epochs) {
    std::vector<double> busy;
    for (const size_t row : its) busy.push_back(rows.busy(row));
    const double middle = median_of(busy).value_or(0);
    for (const size_t row : its) add_row(rows, row, middle, ranks[static_cast<int64_t>(rows.at(row, "rank"))]);
  }
  std::vector<RankTime> times;
  if (ranks.size() < 2) return times;
  for (const auto& [rank, sums] : ranks) times.push_back(mean_time_of(rank, sums, run));
  std::stable_sort(times.begin(), times.end(),
                   [](const RankTime& a, const RankTime& b) { return a.to_median > b.to_median; });
  return times;
}

}  // namespace dtrain
