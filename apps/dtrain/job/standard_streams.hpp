#pragma once

namespace dtrain {

/// Opens those of the descriptors 0 to 2 that were closed when this process started. The first files that a program
/// opens get the lowest free numbers: without this, output would land in them. Call it before anything else. Output
/// then fails as it would on a closed descriptor, so that flush_output() reports it.
void open_standard_streams();

/// Writes out what stdout still holds. Throws IoError if anything printed since the start did not arrive: on a full
/// disk, or in a pipe whose reader is gone.
void flush_output();

}  // namespace dtrain
