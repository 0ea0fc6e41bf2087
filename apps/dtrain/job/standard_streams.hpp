#pragma once

namespace dtrain {

/// Opens those of the descriptors 0 to 2 with which this process was started closed. The first files that a program
/// opens get the lowest free numbers: without this, what is printed would land in them. Call it before anything else.
/// Output then fails as it would on a closed descriptor, so that flush_output() tells of it.
void open_standard_streams();

/// Writes out what stdout still holds. Throws IoError where any of what was printed since the start did not arrive: on
/// a full disk, or in a pipe that nobody reads any more.
void flush_output();

}  // namespace dtrain
