#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// IPv4 addresses of this machine's network interfaces that are up; empty if the system does not tell.
std::vector<std::string> network_addresses();

/// Whether all are of the loopback (127.0.0.0/8), which Open MPI leaves out by default; false for none. Another address
/// of the loopback interface counts as a network, as it does for Open MPI.
bool only_loopback(const std::vector<std::string>& addresses);

}  // namespace dtrain
