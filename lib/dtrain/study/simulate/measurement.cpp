#include "dtrain/study/simulate/measurement.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/study/run_record.hpp"
#include "dtrain/study/simulate/order_statistics.hpp"
#include "dtrain/study/simulate/published.hpp"

namespace dtrain {
namespace {

constexpr const char* kMeasureAgain = "; measure again with this version, for example dtrain bench step --json";

/// Sums over the epochs of a run after the first.
struct EpochSums {
  double steps = 0;
  double samples = 0;
  double seconds = 0;
  double compute_s = 0;
  double wait_s = 0;
  double sum_s = 0;  // that backward did not hide
  double imbalance_s = 0;
  double valid_s = 0;
  double epochs = 0;
  double read_mb = 0;
};

EpochSums steady_epochs(const RunRecord& run) {
  const auto rows = run.epochs.rows();
  if (rows < 2)
    throw DataError(run.folder + " has " + count_of(static_cast<int64_t>(rows), "finished epoch") +
                    ", and the first one also sets things up: let it train for two epochs or more, or measure steps "
                    "alone with dtrain bench step --json");
  EpochSums sums;
  for (size_t i = 1; i < rows; ++i) {
    const auto value = [&](const char* column) { return run.epochs.at(i, column).value_or(0); };
    if (!run.epochs.at(i, "compute_s") || value("steps") < 1 || value("epoch_seconds") <= 0)
      throw DataError(run.folder + "/epochs.csv does not say how long steps computed" + kMeasureAgain);
    sums.steps += value("steps");
    sums.samples += value("samples");
    sums.seconds += value("epoch_seconds");
    sums.compute_s += value("compute_s");
    sums.wait_s += value("data_wait_s");
    sums.sum_s += value("allreduce_s");
    sums.imbalance_s += value("imbalance_s");
    sums.valid_s += value("valid_seconds");
    sums.read_mb += value("read_mb_per_s") * value("epoch_seconds");
    sums.epochs += 1;
  }
  return sums;
}

// Parameters, and the buffers that are averaged with them, as the gradients of a step are.
double float_bytes(const std::string& path) {
  if (!is_there(path))
    throw DataError(path +
                    " is not there, from which the bytes of gradients follow: let the run evaluate once, or "
                    "measure steps alone with dtrain bench step --json");
  double bytes = 0;
  const SafetensorsFile file = SafetensorsFile::read_header(path);
  for (const TensorEntry& entry : file.entries())
    if (entry.dtype == "F32") bytes += static_cast<double>(entry.bytes);
  return bytes;
}

double number_in(const nlohmann::json& json, const char* key, const std::string& name, double least) {
  if (!json.contains(key) || !json[key].is_number() || !(json[key].get<double>() >= least) ||
      !std::isfinite(json[key].get<double>()))
    throw DataError(name + " has no '" + key + "'" + kMeasureAgain);
  return json[key].get<double>();
}

double bucket_bytes_of(const RunRecord& run) {
  const std::string path = run.folder + "/run.json";
  return 1e6 * number_in(parse_json(read_text(path), path), "bucket_mb", path, 1e-6);
}

// Of a step, from the steps of the last epochs; independent batches in turn differ by √k of one.
std::optional<double> step_deviation(const RunRecord& run, double steady_steps) {
  std::vector<double> seconds;
  for (const StepRecord& step : run.steps)
    if (step.seconds) seconds.push_back(*step.seconds);
  const auto kept = static_cast<size_t>(steady_steps);
  if (seconds.size() > kept) seconds.erase(seconds.begin(), seconds.end() - static_cast<std::ptrdiff_t>(kept));
  if (seconds.size() < 10) return std::nullopt;
  return robust_deviation(std::move(seconds));
}

void take_spread(std::optional<double> deviation_s, double imbalance_s, Measurement::Steps& steps) {
  const double k = std::ceil(static_cast<double>(steps.logical_ranks) / static_cast<double>(steps.ranks));
  Workload& workload = steps.workload;
  if (steps.ranks > 1) {  // what it waits for the slowest is what the spread costs it
    workload.compute_sd_s = imbalance_s / expected_maximum(steps.ranks) / std::sqrt(k);
  } else if (deviation_s) {
    workload.compute_sd_s = *deviation_s / std::sqrt(k);
  } else {
    workload.compute_sd_s = published_errors().fit.spread * workload.compute_s;
    steps.spread_measured = false;
  }
}

Measurement bench_step(const nlohmann::json& json, const std::string& name) {
  Measurement measured;
  measured.name = name;
  Measurement::Steps steps;
  steps.ranks = whole_number(json, "ranks", 1, kMostRanks, name);
  steps.logical_ranks = whole_number(json, "logical_ranks", steps.ranks, int64_t{1} << 32, name);
  const auto v = static_cast<double>(steps.logical_ranks);
  const double k = v / static_cast<double>(steps.ranks);
  Workload& workload = steps.workload;
  workload.batch = number_in(json, "images_per_step", name, 1) / v;
  workload.gradient_bytes = 1e6 * number_in(json, "gradient_mb", name, 0);
  workload.bucket_bytes = 1e6 * number_in(json, "bucket_mb", name, 1e-6);
  steps.step_s = v * workload.batch / number_in(json, "images_per_s", name, 1e-9);
  const double sums = steps.ranks > 1 ? number_in(json, "allreduce_share", name, 0) : 0;
  const double imbalance = steps.ranks > 1 ? number_in(json, "imbalance_share", name, 0) : 0;
  workload.compute_s = steps.step_s * std::max(0.0, 1 - sums - imbalance) / k;
  const double median_ms = number_in(json, "step_ms_median", name, 0);
  const double p95_ms = number_in(json, "step_ms_p95", name, 0);
  constexpr double kNormal95 = 1.6449;
  take_spread((p95_ms - median_ms) / 1e3 / kNormal95, imbalance * steps.step_s, steps);
  measured.steps = steps;
  return measured;
}

Measurement bench_input(const nlohmann::json& json, const std::string& name) {
  Measurement measured;
  measured.name = name;
  const auto ranks = static_cast<double>(whole_number(json, "ranks", 1, kMostRanks, name));
  const nlohmann::json& rates = json["parallel"].is_object() ? json["parallel"] : json["sequential"];
  if (!rates.is_object()) throw DataError(name + " has no rates of a pipeline" + kMeasureAgain);
  const double rate = number_in(rates, "images_per_s", name, 1e-9);
  measured.loader = {rate / ranks, std::max(1.0, number_in(rates, "threads", name, 0)),
                     1e6 * number_in(rates, "read_mb_per_s", name, 0) / rate};
  return measured;
}

// Two barriers of ⌈log₂ n⌉ latencies; the rate is the median of what sums of 1 MB and more reach.
Measurement bench_comm(const nlohmann::json& json, const std::string& name) {
  Measurement measured;
  measured.name = name;
  const int64_t ranks = whole_number(json, "ranks", 1, kMostRanks, name);
  double least_ms = 0;
  std::vector<double> rates;
  for (const nlohmann::json& row : json["results"]) {
    if (!row.is_object() || row.value("algorithm", "") != "canonical") continue;
    const double ms = number_in(row, "ms_median", name, 0);
    if (number_in(row, "bytes", name, 0) < 1e6)
      least_ms = least_ms > 0 ? std::min(least_ms, ms) : ms;
    else
      rates.push_back(1e9 * number_in(row, "bus_gb_per_s", name, 0));
  }
  std::sort(rates.begin(), rates.end());
  if (ranks < 2 || rates.empty() || least_ms <= 0 || percentile_of(rates, 0.5) <= 0)
    throw DataError(name +
                    " has no canonical sums of several ranks, small ones and ones of 1 MB or more: measure with "
                    "mpirun -np 2 dtrain bench comm --json");
  const double rounds = std::ceil(std::log2(static_cast<double>(ranks)));
  measured.inside = Link{least_ms / 1e3 / (2 * rounds), percentile_of(rates, 0.5)};
  return measured;
}

bool same_work(const Workload& a, const Workload& b) {
  return a.batch == b.batch && a.gradient_bytes == b.gradient_bytes;
}

}  // namespace

Measurement measured_run(const std::string& folder) {
  const RunRecord run = read_run(folder);
  const EpochSums epochs = steady_epochs(run);
  const auto count = [&](const char* key) {
    const auto found = run.counts.find(key);
    if (found == run.counts.end() || found->second < 1)
      throw DataError(run.folder + "/run.json does not say '" + key + "'" + kMeasureAgain);
    return found->second;
  };
  Measurement measured;
  measured.name = folder;
  measured.notes = run.notes;
  Measurement::Steps steps;
  steps.ranks = count("ranks");
  steps.logical_ranks = count("logical_ranks");
  steps.step_s = epochs.seconds / epochs.steps;
  Workload& workload = steps.workload;
  const auto v = static_cast<double>(steps.logical_ranks);
  const auto n = static_cast<double>(steps.ranks);
  workload.batch = epochs.samples / epochs.steps / v;
  workload.compute_s = epochs.compute_s / epochs.steps / (v / n);
  const double sums = n > 1 ? epochs.sum_s + epochs.imbalance_s : 0;
  constexpr double kWaits = 0.02;
  const bool loader_binds = epochs.wait_s > kWaits * epochs.seconds;  // else what little it waits belongs to each step
  const double modelled = epochs.compute_s + sums + (loader_binds ? epochs.wait_s : 0);
  workload.fixed_s = std::max(0.0, epochs.seconds - modelled) / epochs.steps;
  workload.gradient_bytes = float_bytes(run.folder + "/best.safetensors");
  workload.bucket_bytes = bucket_bytes_of(run);
  take_spread(step_deviation(run, epochs.steps), epochs.imbalance_s / epochs.steps, steps);
  workload.file_bytes_per_image = 1e6 * epochs.read_mb / epochs.samples;
  if (loader_binds) measured.loader = {epochs.samples / epochs.seconds / n, 1, workload.file_bytes_per_image};
  measured.length.samples = std::llround(epochs.samples / epochs.epochs);
  const auto planned = run.counts.find("epochs");
  measured.length.epochs = planned == run.counts.end() ? static_cast<int64_t>(run.epochs.rows()) : planned->second;
  measured.length.valid_s = epochs.valid_s / epochs.epochs * n;
  const auto first = [&](const char* column) { return run.epochs.at(0, column).value_or(0); };
  measured.length.start_s =
      std::max(0.0, first("elapsed_s") - epochs.seconds / epochs.epochs - epochs.valid_s / epochs.epochs);
  measured.steps = steps;
  return measured;
}

Measurement measured_bench(const std::string& text, const std::string& name) {
  std::string_view last = trimmed(text);
  if (const size_t line = last.rfind('\n'); line != std::string_view::npos) last.remove_prefix(line + 1);
  const nlohmann::json json = try_parse_json(last);
  if (json.is_object() && json.contains("step_ms_median") && json.contains("model")) return bench_step(json, name);
  if (json.is_object() && json.contains("parallel") && json.contains("sequential")) return bench_input(json, name);
  if (json.is_object() && json.contains("results") && json["results"].is_array()) return bench_comm(json, name);
  throw DataError(name +
                  " is neither a run's folder nor what dtrain bench step, input or comm writes with --json: "
                  "write it with dtrain bench step --json > " +
                  name);
}

Measurement read_measurement(const std::string& path) {
  FileSystem::Status status;
  const int failed = real_file_system().status(path, true, status);
  if (failed == -ENOENT)
    throw MissingError(path +
                       " does not exist; name a run's folder, or a file with what dtrain bench step --json printed");
  if (failed < 0) throw_errno("look at", path, -failed);
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  return status.is_folder ? measured_run(path) : measured_bench(read_text(path, kMostBytes), path);
}

Measurement joined(const std::vector<Measurement>& all) {
  Measurement together;
  std::vector<const Measurement*> with_steps;
  for (const Measurement& one : all) {
    together.name += (together.name.empty() ? "" : ", ") + one.name;
    together.notes.insert(together.notes.end(), one.notes.begin(), one.notes.end());
    if (one.length.samples > 0) together.length = one.length;
    if (one.loader) together.loader = one.loader;
    if (one.inside) together.inside = one.inside;
    if (one.steps) with_steps.push_back(&one);
  }
  if (with_steps.empty())
    throw DataError(together.name +
                    ": no steps were measured there; add --from a run's folder, or a file with what "
                    "dtrain bench step --json printed");
  Measurement::Steps steps = *with_steps.front()->steps;
  const auto n = static_cast<double>(with_steps.size());
  double sum = 0;
  double within = 0;
  double step_s = 0;
  double fixed_s = 0;
  for (const Measurement* one : with_steps) {
    if (!same_work(one->steps->workload, steps.workload))
      throw DataError(with_steps.front()->name + " and " + one->name +
                      " measured different work: batch and bytes of gradients have to be equal");
    sum += one->steps->workload.compute_s;
    within += one->steps->workload.compute_sd_s * one->steps->workload.compute_sd_s;
    step_s += one->steps->step_s;
    fixed_s += one->steps->workload.fixed_s;
  }
  double between = 0;
  for (const Measurement* one : with_steps) between += std::pow(one->steps->workload.compute_s - sum / n, 2);
  steps.workload.compute_s = sum / n;
  steps.workload.fixed_s = fixed_s / n;
  steps.workload.compute_sd_s = std::sqrt(within / n + (n > 1 ? between / (n - 1) : 0));
  steps.step_s = step_s / n;
  if (together.loader) {
    steps.workload.loader_images_per_s = together.loader->images_per_s;
    steps.workload.loader_threads = together.loader->threads;
    steps.workload.file_bytes_per_image = together.loader->file_bytes_per_image;
  }
  together.steps = steps;
  return together;
}

Cluster one_machine(const Measurement& measured) {
  constexpr Link kMemory{2e-6, 10e9};
  Cluster cluster;
  cluster.name = "one machine with a core for every rank";
  cluster.ranks_per_node = kMostRanks;
  cluster.inside = measured.inside.value_or(kMemory);
  cluster.between = cluster.inside;
  return cluster;
}

}  // namespace dtrain
