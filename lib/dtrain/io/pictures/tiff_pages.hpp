#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtrain {

// A TIFF file may hold several pictures: a stack. Each is named FILE#PAGE, pages counted from 1 ("slices.tif#7"), and
// can be read alone, without the bytes of the others. Previews and transparency masks, which a TIFF marks as such, are
// no pages.

/// A picture's name in its two parts.
struct PicturePath {
  std::string file;
  int64_t page = 0;  ///< 0 where the name has none
};

/// "a/b.tif#7" is page 7 of a/b.tif; every other name, "b.png#7" too, is a file's.
PicturePath picture_path(const std::string& path);

/// True for the names that TIFF files have: only these have pages.
bool may_have_pages(const std::string& file);

/// Pages of the TIFF file at `path`, from its directories alone: a few small reads a page. 1 for a file that is not a
/// TIFF or whose directories are damaged: decoding it reports that. Throws like throw_errno.
int64_t count_tiff_pages(const std::string& path);

/// The names of the pictures in a file of so many pages, appended to `names`: `file` itself where there is one page,
/// else FILE#1, FILE#2 …
void add_page_names(const std::string& file, int64_t pages, std::vector<std::string>& names);

/// The bytes of the picture of that name: the whole file, or for FILE#PAGE a TIFF file of that page alone (what its
/// pixels do not need is left out). Throws as read_file(); DataError, naming the picture, if there is no such page or
/// the directories are damaged.
std::vector<std::byte> read_picture_file(const std::string& path);

/// Where the directories of the pages of a TIFF file in memory are. Throws DataError naming `name` if their chain is
/// damaged: it leads out of the file, back to itself, or over more than 65,535.
std::vector<uint64_t> tiff_pages(std::span<const std::byte> file, const std::string& name);

}  // namespace dtrain
