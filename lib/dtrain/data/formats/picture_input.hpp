#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/data/store/dataset.hpp"
#include "dtrain/data/store/listed_pictures.hpp"

namespace dtrain {

/// Pictures without labels, as a command is given them.
struct PictureInput {
  Dataset dataset;                                 ///< no classes, no labels, the pictures in their order
  std::shared_ptr<const ListedPictures> pictures;  ///< its store
  std::vector<std::string> notes;                  ///< for people: what was found
  std::vector<std::string> left_out;               ///< for people: what of it is not used
  std::string stamps_sha256;  ///< over SampleStore::stamp() of each: changes where pictures are replaced; of this host
};

/// The pictures of `input`, by what it is:
///
/// a folder       all beneath it whose names end as pictures do, in natural order; hidden ones left out. Where there is
///                none, all of its record files, of one kind
/// a picture      itself
/// a .txt list    a path a line, relative to the list's folder, in that order
/// a .csv table   the paths in `column` ("": path), relative to the table's folder, in the order of the rows; as
///                CsvTable reads it, spaces around a path left out
/// a record file  the picture of every record, FILE/NUMBER or FILE/MEMBER (tfrecord_format(), webdataset_format());
///                which feature or member it is, and how much may be decompressed, `data` says
///
/// Every page of a stack is a picture of its own, FILE#PAGE. What lies beneath `left_out`, the folder that is
/// going to be written, is no input, nor are folders beneath `input` that an earlier prediction has written (a
/// predict.json in them), or where `data` has_mask_files() folders of the name of data.image_mask.masks, unless there
/// is nothing else. No picture is decoded, and of a list or table most may be absent.
///
/// Throws MissingError where nothing is at `input`, or nothing at any path of a list or table; UsageError for a
/// `column` without a table; DataError for a folder without pictures or with record files of two kinds, a list or table
/// that names none or one twice, a row without a path, a table without the column, record files that are damaged where
/// their records are counted, a file of another kind; as scan_folder() for links.
PictureInput open_pictures(const std::string& input, const std::string& column, const std::string& left_out,
                           const DataOptions& data);

/// What predict.json says in "format"; a folder with such a file was written by dtrain predict.
inline constexpr std::string_view kPredictionFormat = "dtrain-predict-1";

/// What the names of the masks that are written end in.
inline constexpr std::string_view kMaskEnding = ".png";

/// The picture's path without ending, to name what is written for it: below any folder, so without what may lead out of
/// one (every "..", ".", and empty name: members of an archive may have any path); a page of a stack as "slices#7".
std::string output_stem(const std::string& path);

/// Throws DataError naming two pictures of which both would be written to one file (a.png and a.tif), or one into the
/// other's name, or one whose name is too long to be written.
void require_own_stems(const Dataset& dataset);

}  // namespace dtrain
