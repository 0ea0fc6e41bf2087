#pragma once
#include <memory>

#include "dtrain/dist/communicator.hpp"
#include "dtrain/watch/watchdog.hpp"

namespace dtrain {

/// `comm` as the training thread uses it: while it waits for other ranks, the watchdog knows. Its duplicates, which
/// other threads use, are not watched. `watchdog` outlives it.
std::unique_ptr<Communicator> with_waits_noted(std::unique_ptr<Communicator> comm, Watchdog& watchdog);

}  // namespace dtrain
