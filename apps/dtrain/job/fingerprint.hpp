#pragma once
#include <string>

#include "dtrain/config/config.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// SHA-256 of the file model.weights; "" if none is named. Throws MissingError.
std::string weights_sha256(const Experiment& experiment);

/// Hash of everything a run's result depends on; equal fingerprints give equal results.
std::string fingerprint(const Config& config, const Plan& plan, const std::string& weights_sha256, const Job& job);

}  // namespace dtrain
