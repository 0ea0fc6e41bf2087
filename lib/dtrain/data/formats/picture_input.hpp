#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/data/store/dataset.hpp"
#include "dtrain/data/store/listed_pictures.hpp"

namespace dtrain {

/// Pictures without labels, as a command is given them.
struct PictureInput {
  Dataset dataset;                                 ///< no classes, no labels, the pictures in their order
  std::shared_ptr<const ListedPictures> pictures;  ///< its store
  std::vector<std::string> notes;                  ///< for people: what was left out
};

/// The pictures of `input`: a folder (all beneath it whose names end as pictures do, in natural order; hidden ones left
/// out), one picture file, or a list: a file that ends in .txt, with a path a line, relative to its own folder, in that
/// order. Every page of a TIFF stack is a picture of its own, FILE#PAGE. What lies beneath `left_out`, the folder that
/// is going to be written, is no input. No picture is decoded, and of a list none needs to be there.
///
/// Throws MissingError where nothing is at `input`; DataError for a folder without pictures, a list that names none or
/// one twice, a file of another kind; as scan_folder() for links.
PictureInput open_pictures(const std::string& input, const std::string& left_out, bool allow_links,
                           const ImageOptions& size);

/// What the names of the masks that are written end in.
inline constexpr std::string_view kMaskEnding = ".png";

/// The picture's path without ending, to name what is written for it: below any folder, so without what leads out of
/// one ("../", a leading "/"); a page of a stack as "slices#7".
std::string output_stem(const std::string& path);

/// Throws DataError naming two pictures of which both would be written to one file (a.png and a.tif), or one into the
/// other's name.
void require_own_stems(const Dataset& dataset);

}  // namespace dtrain
