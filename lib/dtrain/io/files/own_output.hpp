#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// A file that a command writes under a name that somebody typed, or under a fixed one, replaces an earlier file of its
/// own kind alone. Called before the work begins, so that nothing is lost by a wrong name.
///
/// `marks`    one of them stands within the first 512 bytes of every file of the kind
/// `kind`     for people: "timeline", as in "is no timeline of dtrain"
/// A name that nothing has, and an empty file, are fine. Throws ConfigError for another file, for links (a rename would
/// put the file in the link's place) and for devices and pipes; like throw_errno where it cannot be looked at.
void require_own_output(const std::string& path, const std::string& kind, const std::vector<std::string>& marks);

}  // namespace dtrain
