#pragma once
#include <functional>
#include <vector>

#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// Runs `body` on `ranks` threads of this process, each with its own communicator: rank tests without a launcher, and
/// many ranks in a debugger. Messages are copied through memory. When a body throws, the exchanges of the others throw
/// CommError, and the first exception (by rank, CommErrors last) is thrown here after all threads have ended.
/// An exchange that waits longer than 60 s throws CommError.
/// `host_of`: the host that each rank pretends to be on, for Communicator::share(); by default all are on one.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const std::vector<int>& host_of = {});

}  // namespace dtrain
