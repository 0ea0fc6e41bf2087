#include "dtrain/data/store/paths.hpp"

#include <filesystem>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace fs = std::filesystem;

static fs::file_type type_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found || error == std::errc::filename_too_long)
    return fs::file_type::not_found;
  if (error) throw_errno("look at", path, error.value());
  return status.type();
}

bool is_folder(const std::string& path) { return type_of(path) == fs::file_type::directory; }
bool is_file(const std::string& path) { return type_of(path) == fs::file_type::regular; }

std::string beneath_root(const std::string& root, const std::string& path) {
  const fs::path whole = (fs::path(root) / path).lexically_normal();
  std::string relative = whole.lexically_relative(fs::path(root).lexically_normal()).generic_string();
  while (relative.ends_with('/')) relative.pop_back();
  return relative == "." ? "" : relative;
}

bool lies_in(std::string_view path, std::string_view folder) {
  if (folder.empty() || path == folder) return true;
  return path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/');
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view without_ending(std::string_view path) {
  const size_t name = path.size() - base_name(path).size();
  const size_t dot = path.rfind('.');  // a page number may follow the ending
  return dot == std::string_view::npos || dot <= name ? path : path.substr(0, dot);
}

std::string_view group_of_name(std::string_view path) {
  const std::string_view name = base_name(path);
  return name.substr(0, name.find_first_of("_."));
}

void PathIndex::add(std::string_view path, int64_t value) {
  paths_.emplace(path, value);
  const auto [entry, first] = names_.emplace(base_name(path), value);
  if (!first) entry->second = kSeveral;
}

int64_t PathIndex::find(std::string_view name) const {
  if (const auto path = paths_.find(name); path != paths_.end()) return path->second;
  return name.find('/') == std::string_view::npos ? find_name(name) : kNone;
}

int64_t PathIndex::find_name(std::string_view name) const {
  const auto base = names_.find(name);
  return base == names_.end() ? kNone : base->second;
}

std::string list_path(const std::string& root, const std::string& file) {
  const bool elsewhere = file.starts_with('/') || file.starts_with("./") || file.starts_with("../");
  return elsewhere ? file : (fs::path(root) / file).string();
}

}  // namespace dtrain
