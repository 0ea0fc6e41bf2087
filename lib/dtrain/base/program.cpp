#include "dtrain/base/program.hpp"

#include <unistd.h>

#include <array>
#include <filesystem>

namespace dtrain {

std::string file_of_program(const std::string& name) {
  std::array<char, 4096> link{};
  if (readlink("/proc/self/exe", link.data(), link.size() - 1) <= 0) return "";
  std::filesystem::path folder = std::filesystem::path(link.data()).parent_path();
  for (int level = 0; level < 4; ++level, folder = folder.parent_path())
    for (const std::filesystem::path& path : {folder / name, folder / "lib" / name})
      if (std::filesystem::exists(path)) return path.string();
  return "";
}

}  // namespace dtrain
