#pragma once
#include <exception>
#include <string>
#include <system_error>

#include "job/job.hpp"

namespace dtrain {

/// Turns what a command threw into dtrain's last line on stderr and the exit code, and ends the job with it: every rank
/// ends, none hangs. One rank reports, the lowest that has failed: the others wait for it (Job::may_tell_failure),
/// because the launcher ends a rank as soon as another one is gone.
int end_in_failure(std::exception_ptr failure, Job& job);

/// True if a system call, usually the start of a thread, failed for lack of memory or because of a process limit.
bool tells_of_memory(const std::system_error& error);

/// The last line of a stalled job, and a warning before it, written without a lock that a stuck thread may hold.
/// `rank_name`: "" for the only rank.
void tell_stall(const std::string& rank_name, const std::string& sentence);
void warn_of_stall(const std::string& sentence);

}  // namespace dtrain
