#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/config/config.hpp"
#include "dtrain/config/schema.hpp"
#include "dtrain/config/yaml_tree.hpp"

namespace dtrain {

/// One source sets one key, or undoes what earlier ones set (a null value).
struct Setting {
  std::string key;  ///< a key of the schema
  YamlNode value;
};

/// What all sources say, in rising precedence; keys are checked against the schema, values not yet.
struct Settings {
  std::deque<YamlSource> sources;  ///< places point into it
  std::vector<Setting> all;
  std::vector<Problem> problems;
  bool complete = true;  ///< false when a source could not be read or parsed: what is missing may be there
};

/// Reads files, environment and overrides. Throws nothing for their content: everything lands in `problems`.
Settings collect_settings(const ConfigSources& from, const std::vector<Key>& keys);

/// Replaces ${VAR} and ${VAR:-default} in every scalar below `node`; `$${` stands for a literal `${`. What is wrong
/// (unset without default, not closed, no name) is appended to `problems`.
void expand_variables(YamlNode& node, std::vector<Problem>& problems);

/// Reads one value like the command line: YAML, but a lone `|` or `>` is a text, not the head of an empty block.
std::optional<YamlNode> parse_value(const std::string& text, const YamlSource& source, std::vector<Problem>& problems);

/// Sets the field of `key` to a value as Codec::print() gives it; paths are absolute.
void read_back(const Key& key, const std::string& text);

}  // namespace dtrain
