#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/image.hpp"

namespace dtrain {

/// What lies beneath a data folder.
struct FolderScan {
  /// Relative to the folder, '/' between folders, natural order; a TIFF file of several pages as FILE#1, FILE#2 …
  std::vector<std::string> pictures;
  int64_t others = 0;                ///< files that are no pictures by their name
  std::vector<std::string> foreign;  ///< of these the pictures of formats that are not read (GIF, WebP, NIfTI …)
};

/// Throws DataError that counts `foreign` by their endings, unless each stands beside a picture of the same name that
/// is read, its conversion: left out they would be lost silently.
void refuse_lost(const FolderScan& scan, const std::string& folder);

/// Tells by its name that a file is wanted.
using NameTest = bool (*)(const std::string& name);

/// Walks `folder` to any depth, pictures (or what else is wanted) by name; hidden files and folders are left out. Of
/// TIFF files the pages are counted (count_tiff_pages), no other file is opened. Links (`folder` itself may be one) are
/// followed while they stay beneath `root`, or everywhere with `allow_links`. Throws DataError for a link that leads
/// out of root or back into a folder that holds it, MissingError for a link to a picture that leads nowhere, else like
/// throw_errno.
FolderScan scan_folder(const std::string& root, const std::string& folder, bool allow_links,
                       NameTest wanted = has_image_extension);

/// The same for a folder named relative to root (beneath_root()). One that the configuration names outside of root
/// ("../more") bounds its own links.
FolderScan scan_beneath(const std::string& root, const std::string& relative, bool allow_links);

/// False where nothing of that name is, or can be (a name too long). Throws like throw_errno where it cannot be told.
bool is_folder(const std::string& path);
bool is_file(const std::string& path);

/// Class names go into JSON, safetensors, tables and onto terminals. Throws DataError "WHAT 'NAME' is not UTF-8; DO",
/// or that it holds characters that steer a terminal, shown as printable() does, unless `name` is printable UTF-8.
void require_plain_name(const std::string& name, const std::string& what, const std::string& advice);

/// Names of the folders in `folder`, hidden ones left out, natural order.
std::vector<std::string> folders_in(const std::string& folder);

/// Throws MissingError naming `data.root` if `root` is not there, DataError if it is no folder.
void require_root(const std::string& root);

/// `path` (relative to root, or absolute) as a path relative to root without `.` and `..` where that is possible.
std::string beneath_root(const std::string& root, const std::string& path);

/// True for the folder itself and for all beneath it.
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
  /// The value of that path; where there is none and `name` holds no '/', of the one path with that base name;
  /// kSeveral if more than one has it, kNone if none.
  int64_t find(std::string_view name) const;
  /// By base name alone.
  int64_t find_name(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, int64_t> paths_;
  std::unordered_map<std::string_view, int64_t> names_;
};

}  // namespace dtrain
