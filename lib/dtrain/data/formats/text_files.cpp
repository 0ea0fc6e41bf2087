#include "dtrain/data/formats/text_files.hpp"

#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

namespace fs = std::filesystem;

static std::string absolute(const std::string& path) {
  std::string whole = fs::absolute(path).lexically_normal().string();
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  return whole;
}

void refuse_link_out(const DataOptions& options, const std::string& path) {
  if (options.allow_links || path.empty() || !lies_in(absolute(path), absolute(options.root))) return;
  std::error_code error;
  const std::string root = fs::canonical(options.root, error).string();
  if (error) return;  // reported when the files are opened
  const std::string target = fs::canonical(path, error).string();
  if (error || lies_in(target, root)) return;
  throw DataError("'" + path + "' leads by links out of data.root to '" + target +
                  "'; set data.allow_links: true if this is intended");
}

}  // namespace dtrain
