#pragma once
#include <functional>

#include "dtrain/dist/communicator.hpp"

namespace dtrain {

/// Runs `body` on `ranks` threads of this process, each with its own communicator: rank tests without a launcher, and
/// many ranks in a debugger. Messages are copied through memory. When a body throws, the exchanges of the others throw
/// CommError, and the first exception (by rank, CommErrors last) is thrown here after all threads have ended.
/// An exchange that waits longer than 60 s throws CommError.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace dtrain
