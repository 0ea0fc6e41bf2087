#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job/job_advice.hpp"
#include "job/picture_scan.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// The sections of a check, in order: each prints itself on stdout and adds its part to `json`.
using CheckJson = nlohmann::ordered_json;

void tell_parts(const Plan& plan, CheckJson& json);
/// What data.sampling: balanced makes of the training part.
void tell_sampling(const Experiment& e, const Plan& plan);
void tell_network(const Experiment& experiment, const Plan& plan, const Network& network,
                  const std::string& weights_line, CheckJson& json);
void tell_schedule(const Experiment& experiment, const Plan& plan, int64_t processes, CheckJson& json);
/// `look_s`: what looking took.
void tell_pictures(const Plan& plan, const PictureFacts& pictures, bool quick, double look_s, CheckJson& json);
/// Share of the pixels of each class, once all masks were decoded.
void tell_mask_shares(const Plan& plan, const PictureFacts& pictures, CheckJson& json);
void tell_memory(const JobMemory& memory, CheckJson& json);
void tell_cache(const Experiment& experiment, const Plan& plan, const PixelKind& kind, int processes, CheckJson& json);
/// What is worth a look.
void tell_findings(const std::vector<Finding>& findings, CheckJson& json);

}  // namespace dtrain
