#pragma once
#include <map>
#include <string>
#include <vector>

#include "dtrain/data/options.hpp"
#include "dtrain/io/files/csv.hpp"

namespace dtrain {

/// What a folder holds, by the names of its files and the contents of its tables.
struct FolderLook {
  std::string root;                   ///< absolute
  std::vector<std::string> pictures;  ///< relative, natural order, pages of stacks as FILE#PAGE
  std::vector<std::string> others;    ///< likewise all other files
  std::vector<CsvTable> tables;       ///< that can be read, the nearest to the root first
  std::vector<std::string> unread;    ///< why other tables cannot, a sentence each
  std::string links_out;              ///< a link leads out of root: the sentence that says so; links were followed
};

/// Looks at a folder, or at one record file. Opens tables, and stacks for the number of their pages, and nothing else.
/// Throws MissingError if there is none, DataError for another kind of file; like scan_folder().
FolderLook look_at_folder(const std::string& path);

/// One way to read a folder, as the format's row proposes it.
struct Reading {
  /// How sure it is that people mean this, if it opens.
  enum class Trust {
    certain,  ///< layout or names say so
    offered,  ///< if there is nothing better
    asked,    ///< only a person can know
  };
  DataOptions options;  ///< root, format, and what else differs from the defaults
  Trust trust = Trust::certain;
  int likelihood = 50;  ///< 0 … 100: of several formats that open, the highest is taken
  /// Readings of one family are answers to one question: at most one is right.
  std::string family;
  std::string question;                    ///< of the family: "which column is the label"
  std::vector<std::string> decides;        ///< the keys, or groups of keys, that answer it; empty: nothing was open
  std::string sees;                        ///< for people, what the folder is taken for: "a table of labels"
  std::map<std::string, std::string> why;  ///< key → why it has this value, for people

  std::string table;  ///< the label file that it uses; of several formats that read one, the likeliest counts
};

/// Of all formats, the likeliest first; none has been tried.
std::vector<Reading> all_readings(const FolderLook& look);

// What the rows of formats share to find their readings.

/// A reading of `look.root`, or of a folder beneath it.
Reading reading_of(const DataFormat& format, const std::string& root, const FolderLook& look);

/// With this label table: one reading that wants a picture for every row, and one that leaves rows without one out.
std::vector<Reading> readings_of_table(const DataFormat& format, const CsvTable& table, const FolderLook& look);

/// Folders directly in `base` (relative to look.root, "" for itself) that hold pictures at any depth, natural order.
std::vector<std::string> folders_with_pictures(const FolderLook& look, const std::string& base);
/// Pictures beneath `base`, relative to it.
std::vector<std::string> pictures_in(const FolderLook& look, const std::string& base);
/// `base`, and as long as all pictures lie in one folder of it, that folder: where a layout may begin.
std::vector<std::string> layout_bases(const FolderLook& look);
/// look.root/base
std::string whole_folder(const FolderLook& look, const std::string& base);
/// Takes the column out that names the parts (OwnParts::By::column), so that data.split can deal them.
void forget_part_column(DataOptions& options);
/// The name is one that people give to a folder of masks: masks, labels, gt …
bool sounds_like_masks(std::string_view folder);

}  // namespace dtrain
