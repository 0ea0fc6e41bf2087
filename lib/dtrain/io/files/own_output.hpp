#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// A file that a command writes, under a name from the command line or a fixed one, may replace only an earlier file of
/// its own kind. Called before the work begins, so that nothing is lost by a wrong name.
///
/// `marks`    one of them stands within the first 512 bytes of every file of the kind
/// `kind`     for people: "timeline", as in "is not a timeline of dtrain"
/// An unused name and an empty file are fine. Throws ConfigError for another file, for links (a rename would
/// put the file in the link's place) and for devices and pipes; like throw_errno if it cannot be examined.
void require_own_output(const std::string& path, const std::string& kind, const std::vector<std::string>& marks);

}  // namespace dtrain
