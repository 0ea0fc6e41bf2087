#include "dtrain/study/run_result.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

void take_rates(const NumberTable& epochs, const SteadyEpochs& steady, RunResult& result) {
  double train_s = 0;
  double whole_s = 0;
  double images = 0;
  double count = 0;
  for (size_t row = 0; row < epochs.rows(); ++row) {
    const double seconds = epochs.at(row, "epoch_seconds").value_or(0);
    if (!steady.has(epochs.at(row, "epoch").value_or(0)) || !std::isfinite(seconds) || seconds <= 0) continue;
    const double rate = epochs.at(row, "images_per_s").value_or(0);  // tables of other tools may have it alone
    train_s += seconds;
    whole_s += seconds + epochs.at(row, "valid_seconds").value_or(0);
    images += epochs.at(row, "samples").value_or(rate * seconds);
    count += 1;
  }
  if (train_s > 0 && images > 0) result.images_per_s = images / train_s;
  if (whole_s > 0 && std::isfinite(whole_s)) result.epochs_per_hour = 3600 * count / whole_s;
}

}  // namespace

std::optional<size_t> best_row(const NumberTable& epochs, const Monitor& monitor) {
  const std::vector<double>* values = epochs.column(monitor.column);
  if (values == nullptr) return std::nullopt;
  std::optional<size_t> best;
  for (size_t row = 0; row < values->size(); ++row) {
    const double value = (*values)[row];
    if (!std::isfinite(value)) continue;
    const auto loss = [&](size_t of) { return epochs.at(of, "valid_loss").value_or(std::nan("")); };
    const bool better = !best || (value == (*values)[*best]  ? loss(row) < loss(*best)
                                  : monitor.larger_is_better ? value > (*values)[*best]
                                                             : value < (*values)[*best]);
    if (better) best = row;
  }
  return best;
}

RunResult result_of(const RunRecord& run, const Monitor& monitor, const SteadyEpochs& steady) {
  RunResult result;
  result.done = run.done;
  result.epochs = static_cast<int64_t>(run.epochs.rows());
  if (result.epochs > 0) result.elapsed_s = run.epochs.at(run.epochs.rows() - 1, "elapsed_s");
  if (const std::optional<size_t> best = best_row(run.epochs, monitor)) {
    result.best = run.epochs.at(*best, monitor.column);
    result.best_epoch = static_cast<int64_t>(run.epochs.at(*best, "epoch").value_or(0));
  }
  take_rates(run.epochs, steady, result);
  result.result_sha256 = run.text("result_sha256");
  result.data_sha256 = run.text("data_sha256");
  result.split_sha256 = run.text("split_sha256");
  if (const auto device = run.versions.find("device"); device != run.versions.end()) result.device = device->second;
  result.nodes = run.nodes();
  result.ranks = run.count("ranks");
  result.logical_ranks = run.count("logical_ranks");
  return result;
}

RunResult read_result(const std::string& folder, const Monitor& monitor) {
  const RunRecord run = look_at_run(folder, {});
  for (const FileFault& fault : run.faults)
    if (fault.file.ends_with("epochs.csv")) throw DataError(fault.sentence);
  return result_of(run, monitor);
}

std::string last_sentence(const std::string& log, int64_t from) {
  if (!is_there(log)) return "";
  const std::string text = read_text(log, int64_t{1} << 30);
  const std::vector<std::string> lines =
      split_text(std::string_view(text).substr(std::min(text.size(), static_cast<size_t>(from))), '\n');
  std::string last;
  std::string error;
  for (const std::string& line : lines) {
    if (line.starts_with("dtrain: error ")) error = line;
    if (line.find_first_not_of(" -=\r") != std::string::npos) last = std::string(trimmed(line));
  }
  const size_t colon = error.find(": ", std::string_view("dtrain: error ").size());
  return error.empty() ? last : colon == std::string::npos ? error : error.substr(colon + 2);
}

}  // namespace dtrain
