#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dtrain/study/simulate/measurement.hpp"

namespace dtrain {

/// What dtrain simulate predicts with, and from what.
struct Simulation {
  Measurement measured;  ///< with steps
  SimulatedJob job;
  bool described = false;  ///< the cluster comes from a file
};

/// What no measurement says, a sentence each.
std::vector<std::string> assumptions(const Simulation& simulation);

/// Each prints on stdout, and adds its part to `json`.
void tell_simulation(const Simulation& simulation, const std::vector<int64_t>& ranks, nlohmann::ordered_json& json);
/// The model against every published point.
void tell_published(nlohmann::ordered_json& json);
/// One sentence on that, for every output.
void tell_published_error(nlohmann::ordered_json& json);

/// "more ranks than 16 do not pay: …".
std::string pays_sentence(const SimulatedJob& job);

}  // namespace dtrain
