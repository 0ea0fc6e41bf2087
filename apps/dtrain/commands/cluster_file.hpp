#pragma once
#include <string>

#include "dtrain/study/simulate/measurement.hpp"

namespace dtrain {

/// The description of a machine, such as configs/clusters/example.yaml:
///
///   name: 4 GPUs a node                        # optional
///   ranks_per_node: 4
///   inside: {latency_us: 10, gb_per_s: 200}    # 1e-6 s, 1e9 bytes a second
///   between: {latency_us: 15, gb_per_s: 22, message_us: 1}   # message_us: optional, 1
///   cores_per_node: 48                         # optional
///   file_system: {gb_per_s: 10}                # optional
///
/// Throws ConfigError with all errors at once, each with file, line and column, and like read_config_file().
Cluster read_cluster(const std::string& path);

/// For people: "4 ranks a node; inside 10 us, 200 GB/s; between 15 us, 22 GB/s a node".
std::string cluster_text(const Cluster& cluster);

}  // namespace dtrain
