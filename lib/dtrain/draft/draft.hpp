#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtrain {

/// A sentence about a drafted configuration.
struct DraftNote {
  std::string sentence;
  std::string key = "";  ///< that it is about, or a group of keys; "": about the whole
  int64_t line = 0;  ///< of Draft::text, from 1, where that key stands first, be it as a comment; 0: about the whole
};

/// A configuration for a folder that nobody has described.
struct Draft {
  std::string text;                   ///< YAML, with a reason beside each line
  std::vector<DraftNote> to_fill_in;  ///< what only a person can know or mend; the file says so too
  std::vector<DraftNote> choices;     ///< what could be otherwise; the file says so too
  std::string seen;                   ///< "96 pictures: one folder of pictures per class"
};

/// Looks at `path`, a folder or a record file: at all names and tables, the headers of at most kMostHeaders pictures
/// and the pixels of kMostDecoded. Reads it in every way that the formats' rows propose (DataFormat::readings), opened
/// as training opens it; of those that open it writes the likeliest, and the others as comments, each a whole
/// configuration once it is uncommented. Where none opens, the
/// file says why, and what would.
/// `tick(done, total)`: now and then while pictures are read. Throws MissingError, DataError for a folder without
/// pictures, and like scan_folder().
Draft draft_configuration(const std::string& path, const std::function<void(int64_t, int64_t)>& tick = nullptr);

/// `sentence` as lines of the file's head: where the drafted file was tried and refused.
std::string with_refusal(const std::string& text, const std::string& sentence);

}  // namespace dtrain
