#include "dtrain/io/files/own_output.hpp"

#include <cerrno>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

void require_own_output(const std::string& path, const std::string& kind, const std::vector<std::string>& marks) {
  constexpr int64_t kStart = 512;
  FileSystem::Status status;
  const int failed = real_file_system().status(path, false, status);
  if (failed == -ENOENT || failed == -ENOTDIR) return;
  if (failed < 0) throw_errno("look at", path, -failed);
  if (!status.is_file)
    throw ConfigError(path + " is not a regular file, so no " + kind + " is written over it; choose another name");
  if (status.bytes == 0) return;
  const std::vector<std::byte> start = read_file_start(path, kStart);
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  for (const std::string& mark : marks)
    if (text.find(mark) != std::string_view::npos) return;
  throw ConfigError(path + " exists and is not a " + kind +
                    " of dtrain, so it is not replaced; choose another name or move it away");
}

}  // namespace dtrain
