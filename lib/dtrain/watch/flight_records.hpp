#pragma once
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"
#include "dtrain/watch/flight.hpp"

namespace dtrain {

/// RUN/flight: what each rank wrote down of itself when the job stalled or failed, one file rank-0003.json per rank. No
/// MPI is needed to read them, and nothing in them is trusted. `files`: what the run folder is reached by; a HeldFolder
/// follows no links in it.

/// Before a start: removes the records of earlier ones. A folder that is not there is fine. Throws like throw_errno.
void remove_flight_records(const std::string& run_folder, FileSystem& files = real_file_system());

/// Writes this rank's record, replacing an older one; makes the folder RUN/flight where RUN exists. Not synced: it is
/// the last thing a process does, perhaps on a disk that hangs. Throws like throw_errno.
void write_flight_record(const std::string& run_folder, const FlightRecord& record,
                         FileSystem& files = real_file_system());

/// What the records tell, in sentences for people, the conclusion first: who was behind, which ranks left no record
/// (stopped, gone or cut off) and where they were last seen, then one sentence per record; a file that cannot be
/// understood is named with what is wrong. Empty where there are none. Throws like throw_errno where the folder cannot
/// be read.
std::vector<std::string> explain_flight_records(const std::string& run_folder, FileSystem& files = real_file_system());

}  // namespace dtrain
