#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// What is under a data folder.
struct FolderScan {
  /// Relative to the folder, '/' between folders, natural order; a TIFF file of several pages as FILE#1, FILE#2 …
  std::vector<std::string> pictures;
  int64_t others = 0;                ///< files that are not pictures by their name
  std::vector<std::string> foreign;  ///< of these the pictures of formats that are not read (GIF, WebP, NIfTI …)
};

/// As count_pages(), but 1 for a file that is_of_the_file() finds at fault; decoding it says why.
int64_t pages_if_readable(const std::string& path);

/// Throws DataError that counts `foreign` by their endings, unless each is beside a picture of the same name that is
/// read, its conversion: otherwise they would be lost silently.
void refuse_lost(const FolderScan& scan, const std::string& folder);

/// Whether a file is wanted, by its name.
using NameTest = bool (*)(const std::string& name);

/// What is done about a single picture that a walk cannot look into: a stack whose pages cannot be counted, a link that
/// leads nowhere.
enum class AtFault {
  fail,  ///< the walk ends
  list,  ///< it is listed as one picture; whoever reads it says what is wrong
};

/// Walks `folder` to any depth, pictures (or whatever is wanted) by name; hidden files and folders are left out, and
/// copies that a system keeps in __MACOSX/ or @eaDir/. The
/// pages of TIFF and DICOM files are counted (count_pages); no other file is opened. Links (`folder` itself may be one)
/// are followed while they stay under `root`, or everywhere with `allow_links`. Throws DataError for a link that leads
/// out of root or back into a folder that contains it; with AtFault::fail MissingError for a link to a picture that
/// leads nowhere, and as count_pages(); otherwise like throw_errno.
FolderScan scan_folder(const std::string& root, const std::string& folder, bool allow_links,
                       NameTest wanted = has_image_extension, AtFault at_fault = AtFault::fail);

/// The same for a folder named relative to root (beneath_root()). A folder that the configuration names outside root
/// ("../more") bounds its own links.
FolderScan scan_beneath(const std::string& root, const std::string& relative, bool allow_links);

/// Class names go into JSON, safetensors, tables and onto terminals. Throws DataError "WHAT 'NAME' is not UTF-8; DO",
/// or that it holds characters that control a terminal, shown as printable() does, unless `name` is printable UTF-8.
void require_plain_name(const std::string& name, const std::string& what, const std::string& advice);

/// Names of the folders in `folder` but folders_left_out(), natural order.
std::vector<std::string> folders_in(const std::string& folder);

/// The others of its folders: those that are hidden, and copies that a system keeps (__MACOSX, @eaDir), natural order.
std::vector<std::string> folders_left_out(const std::string& folder);

/// Whether a folder of this name is by convention none of the data, though it may hold pictures: what systems and
/// viewers put beside them ("__MACOSX", "@eaDir", "thumbs", "thumbnails"; upper or lower case), and hidden folders.
bool is_beside_the_data(const std::string& name);

/// Throws MissingError naming `data.root` if `root` does not exist, DataError if it is not a folder.
void require_root(const std::string& root);

}  // namespace dtrain
