#pragma once
#include <string>

namespace dtrain {

/// Throws UsageError if there is something at `path`, the --output of a command, unless `force` is set and it is a
/// regular file; MissingError if its folder does not exist.
void require_free_output(const std::string& path, bool force);

}  // namespace dtrain
