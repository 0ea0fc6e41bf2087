#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

// A TIFF or DICOM file may hold several pictures: a stack of pages, or frames. Each is named FILE#PAGE, pages counted
// from 1 ("slices.tif#7"), and can be read alone, without the bytes of the others (tiff_pages.hpp, dicom_frames.hpp).

/// A picture's name in its two parts.
struct PicturePath {
  std::string file;
  int64_t page = 0;  ///< 0 where the name has none
};

/// "a/b.tif#7" is page 7 of a/b.tif; every other name, "b.png#7" too, is a file's.
PicturePath picture_path(const std::string& path);

/// True for the names that TIFF and DICOM files have: only these have pages.
bool may_have_pages(const std::string& file);

/// Pages of the file at `path`, without reading its pixels: a few small reads a page of a TIFF, and for a DICOM. 1 for
/// a file of another kind, or one whose structure is damaged: decoding it reports that. Throws like throw_errno.
int64_t count_pages(const std::string& path);

/// The names of the pictures in a file of so many pages, appended to `names`: `file` itself where there is one page,
/// else FILE#1, FILE#2 …
void add_page_names(const std::string& file, int64_t pages, std::vector<std::string>& names);

/// The bytes of the picture of that name: the whole file, or for FILE#PAGE a file of that page alone. Throws as
/// read_file(); DataError, naming the picture, if there is no such page or it cannot be cut out.
std::vector<std::byte> read_picture_file(const std::string& path);

}  // namespace dtrain
