#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace dtrain {

// How the files and samples of a data set are named: relative to data.root, with '/' between folders.

/// False if nothing has that name, or can have it (a name too long). Throws like throw_errno if this cannot be
/// determined.
bool is_folder(const std::string& path);
bool is_file(const std::string& path);

/// `path` (relative to root, or absolute) as a path relative to root without `.` and `..` where that is possible.
std::string beneath_root(const std::string& root, const std::string& path);

/// True for the folder itself and for everything under it.
bool lies_in(std::string_view path, std::string_view folder);

/// The name after the last '/'.
std::string_view base_name(std::string_view path);
/// The path without the ending of its last name, and without a page: "a/b.c.png" and "a/b.c.tif#2" give "a/b.c".
std::string_view without_ending(std::string_view path);
/// The file name up to its first '_' or '.'.
std::string_view group_of_name(std::string_view path);

/// Finds paths by their whole text or by base name alone. Holds views: the paths must outlive it.
class PathIndex {
 public:
  static constexpr int64_t kNone = -1;
  static constexpr int64_t kSeveral = -2;

  void add(std::string_view path, int64_t value);
  /// The value of that path; if there is none and `name` has no '/', of the one path with that base name;
  /// kSeveral if more than one has it, kNone if none.
  int64_t find(std::string_view name) const;
  /// By base name alone.
  int64_t find_name(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, int64_t> paths_;
  std::unordered_map<std::string_view, int64_t> names_;
};

/// The most that is read of a label table or a split list: some ten million rows.
inline constexpr int64_t kMostTableBytes = int64_t{1} << 30;

/// Where a list of data.split.files is: under root unless it begins with /, ./ or ../.
std::string list_path(const std::string& root, const std::string& file);

}  // namespace dtrain
