#pragma once
#include <string>
#include <vector>

#include "dtrain/data/options.hpp"

namespace dtrain {

// What documentation and messages say of data.format, from the rows of data_formats().

/// A predicate on formats.
using FormatTest = bool (*)(const DataFormat& format);
bool has_label_file(const DataFormat& format);
bool has_record_files(const DataFormat& format);
/// Pictures are files of their own, or were when they were packed.
bool has_picture_files(const DataFormat& format);
/// Samples have masks, whatever the options say.
bool always_masks(const DataFormat& format);

/// "a, b and c": the formats of which `test` is true.
std::string formats_text(FormatTest test, const std::string& last);
/// "`data.format` is a, b or c"
std::string when_format(FormatTest test);
/// "`data.format` is not a": the pictures are read, not made.
std::string when_not_generated();
/// All of them, for a message; generated ones last.
std::string all_formats();

/// "a multiclass; b and c multilabel; …": what `task` is if not given. `any`: for formats that are for any task.
std::string default_tasks(const std::string& any);
/// "; for a …": what data.labels is if not given.
std::string default_label_files();

/// The keys that decide the classes of the various formats, and `more`.
std::vector<std::string> class_keys(std::vector<std::string> more);

}  // namespace dtrain
