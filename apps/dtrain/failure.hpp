#pragma once
#include <exception>
#include <string>

#include "job.hpp"

namespace dtrain {

/// Turns what a command threw into dtrain's last line on stderr and the exit code, and ends the job with it: every rank
/// goes, none hangs. Errors that all ranks share are told by rank 0: the others wait up to 3 s for it, because the
/// launcher ends rank 0 as soon as another rank is gone.
int end_in_failure(std::exception_ptr failure, Job& job);

/// The last line of a stalled rank, written without locks or waiting; ends the process with 76.
[[noreturn]] void end_in_stall(const std::string& rank_name, bool several_ranks, const std::string& sentence);

}  // namespace dtrain
