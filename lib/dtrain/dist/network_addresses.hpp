#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// IPv4 addresses of this machine's network interfaces that are up; empty if the system does not tell.
std::vector<std::string> network_addresses();

/// Whether all are of the loopback (127.0.0.0/8), which Open MPI leaves out by default.
bool only_loopback(const std::vector<std::string>& addresses);

}  // namespace dtrain
