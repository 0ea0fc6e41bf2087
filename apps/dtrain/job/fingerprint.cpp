#include "job/fingerprint.hpp"

#include "dtrain/base/hash.hpp"
#include "dtrain/device/gpu_facts.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/model/weights.hpp"
#include "line/versions.hpp"

namespace dtrain {

std::string weights_sha256(const Experiment& e) {
  if (e.model.weights.empty()) return "";
  require_weights_file(e.model.weights);
  return Sha256().update(read_file(e.model.weights)).hex_digest();
}

std::string fingerprint(const Config& config, const Plan& plan, const std::string& weights_sha256, const Job& job) {
  std::string text;
  for (const auto& [key, value] : fingerprint_values(config)) text += key + "=" + value + "\n";
  if (!weights_sha256.empty()) text += "weights " + weights_sha256 + "\n";
  text += "data " + plan.dataset.manifest_sha256 + "\nsplit " + plan.split.sha256 + "\nlogical ranks " +
          std::to_string(plan.logical_ranks) + "\nthreads " + std::to_string(config.experiment.distributed.threads) +
          "\n";
  for (const auto& [name, version] : library_versions())
    if (name != "mpi") text += name + " " + version + "\n";
  for (const auto& [name, value] : job.device_facts()) text += name + " " + value + "\n";
  if (job.device().module != nullptr)
    for (const auto& [name, value] : plan_settings()) text += name + "=" + value + "\n";
  return sha256_hex(text);
}

}  // namespace dtrain
