#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/store/record_set.hpp"
#include "dtrain/io/records/field_values.hpp"

namespace dtrain {

/// Record files under options.root that are `wanted` by their names, natural order; options.root alone, whatever its
/// name, if it is a file. Throws DataError if there are none ("holds no " `kind`), and like scan_folder().
std::vector<std::string> find_record_files(const DataOptions& options, NameTest wanted, const std::string& kind);

/// The part that a record file's name begins with (part_called()), else "". See open_dataset().
std::string part_of_file(const std::string& file);

/// Shared by both formats of record files, once every record has been read: gives dataset.samples the labels from their
/// records, `labels` in the order of the samples (none with masks), and the parts from the names of its `files`; sets
/// dataset.classes. `names`: the configured ones, in the order of the labels' numbers; empty: the classes are what the
/// records contain, in natural order.
///
/// multiclass   one value: a class by its number or name.
/// multilabel   numbers: one for each class, 0, 1 or NaN (unknown), as many in every record; or texts: the names of the
///              classes that are present.
/// Throws DataError naming file, record and offset of what does not fit, several at once, capped.
void finish_records(const DataOptions& options, const std::vector<std::string>& names,
                    const std::vector<FieldValues>& labels, const std::vector<std::string>& files, Dataset& dataset);

// The rows of both: their tasks, their classes by the names that the configuration gives them or by mask_values, and
// what is wrong between their keys.
std::vector<Task> tasks_of_records(const DataOptions& options);
std::optional<std::vector<std::string>> record_classes(const DataOptions& options,
                                                       const std::vector<std::string>& names);
std::optional<int64_t> record_class_count(const DataOptions& options, const std::vector<std::string>& names);
void check_records(const DataOptions& options, KeyReport& report);

}  // namespace dtrain
