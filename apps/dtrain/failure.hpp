#pragma once
#include <exception>
#include <string>

#include "job.hpp"

namespace dtrain {

/// Turns what a command threw into dtrain's last line on stderr and the exit code, and ends the job with it: every rank
/// goes, none hangs. One rank tells, the lowest that has failed: the others wait for it (Job::may_tell_failure),
/// because the launcher ends a rank as soon as another one is gone.
int end_in_failure(std::exception_ptr failure, Job& job);

/// The last line of a stalled rank, written without locks or waiting; ends the process with 76.
[[noreturn]] void end_in_stall(const std::string& rank_name, bool several_ranks, const std::string& sentence);

}  // namespace dtrain
