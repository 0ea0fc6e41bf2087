#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/config/experiment.hpp"
#include "dtrain/draft/decisions.hpp"

namespace dtrain {

/// The value of a key as YAML writes it; label file and lists under data.root relative to it.
std::string text_of_key(const Experiment& experiment, const std::string& key);
/// The same of a group, "data.split": what differs from the defaults, as "{valid: 0.2, by: patient}". "" if nothing
/// does.
std::string text_of_group(const Experiment& experiment, const std::string& group);
/// Keys of `data` with an effect and another value than the default, in the order of the documentation.
std::vector<std::string> keys_that_differ(const DataOptions& data);

/// The lines in the order of the documentation, each with its reason beside it, or above it where that is long. A line
/// that is off stays a comment; where its group has no other line, it brings the group: "# loss: {pos_weight: 2}".
/// `line_of`: gets the number, from 1, of each key's first line.
std::string draft_yaml(const Experiment& experiment, const std::vector<DraftLine>& lines,
                       std::map<std::string, int64_t>* line_of = nullptr);

/// `text` as lines of a comment of at most 100 columns, each after `indent` and "# ".
std::string comment_lines(const std::string& text, const std::string& indent);

}  // namespace dtrain
