#pragma once
#include <string>

namespace dtrain {

/// Throws UsageError if there is something at `path`, the --output of a command, unless `force` is set and it is a
/// regular file.
void require_free_output(const std::string& path, bool force);

}  // namespace dtrain
