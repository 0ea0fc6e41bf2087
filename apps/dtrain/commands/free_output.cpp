#include "commands/free_output.hpp"

#include <filesystem>

#include "dtrain/base/error.hpp"

namespace dtrain {

void require_free_output(const std::string& path, bool force) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::error_code unread;
  if (!folder.empty() && !std::filesystem::is_directory(folder, unread))
    throw MissingError("--output '" + path + "': there is no folder " + folder + "; make it first, or name another");
  const auto found = std::filesystem::symlink_status(path, unread).type();
  if (found == std::filesystem::file_type::not_found || found == std::filesystem::file_type::none) return;
  if (found != std::filesystem::file_type::regular)
    throw UsageError("--output '" + path + "' is not a regular file; name a new one");
  if (!force) throw UsageError("--output '" + path + "' exists; name a new file, or replace it with --force");
}

}  // namespace dtrain
