#pragma once
#include <string>
#include <vector>

#include "dtrain/data/dataset.hpp"
#include "dtrain/io/field_values.hpp"

namespace dtrain {

/// What both formats of record files share, once every record has been met: gives dataset.samples the labels that stand
/// in their records, `labels` in the order of the samples (none with masks), and the parts that file names tell; sets
/// dataset.classes. `names`: the configured ones, in the order of the labels' numbers; empty: the classes are what
/// stands in the records, in natural order.
///
/// multiclass   one value: a class by its number or name.
/// multilabel   numbers: one for each class, 0, 1 or NaN (unknown), as many in every record; or texts: the names of the
///              classes that are present.
/// Throws DataError naming file, record and offset of what does not fit, many at once, capped.
void finish_records(const DataOptions& options, const std::vector<std::string>& names,
                    const std::vector<FieldValues>& labels, Dataset& dataset);

}  // namespace dtrain
