#pragma once
#include <string>
#include <vector>

#include "dtrain/io/files/file_system.hpp"
#include "dtrain/watch/flight.hpp"

namespace dtrain {

/// RUN/flight: what each rank recorded when the job stalled or failed, one file rank-0003.json per rank. No
/// MPI is needed to read them, and nothing in them is trusted. `files`: how the run folder is accessed; a HeldFolder
/// follows no links in it.

/// Before a start: removes the records of earlier ones. A missing folder is fine. Throws like throw_errno.
void remove_flight_records(const std::string& run_folder, FileSystem& files = real_file_system());

/// Writes this rank's record, replacing an older one; creates the folder RUN/flight if RUN exists. Not synced: it is
/// the last thing a process does, perhaps on a hanging disk. Throws like throw_errno.
void write_flight_record(const std::string& run_folder, const FlightRecord& record,
                         FileSystem& files = real_file_system());

/// What the records say, in sentences for people, the conclusion first: who was behind, which ranks left no record
/// (stopped, gone or cut off) and where they were last seen, then one sentence per record; an unreadable file is named
/// with what is wrong. Empty if there are none. Throws like throw_errno if the folder cannot be read.
std::vector<std::string> explain_flight_records(const std::string& run_folder, FileSystem& files = real_file_system());

}  // namespace dtrain
