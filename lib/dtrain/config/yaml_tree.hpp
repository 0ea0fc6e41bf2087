#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {

/// One place that a configuration comes from: a file, a variable of the environment, an override.
struct YamlSource {
  std::string label;      ///< before an error: "chexnet.yaml", "command line: optimizer.lr=0.1"
  std::string origin;     ///< beside a value: "chexnet.yaml", "DTRAIN_CONFIG__SEED", "command line"
  std::string base_dir;   ///< absolute folder that its relative paths start from
  int order = 0;          ///< precedence: later ones win
  bool positions = true;  ///< a file: errors give line and column
  bool of_a_run = false;  ///< the config.yaml that a run has stored in its folder
};

/// A place in a source. Line and column count from 1, columns in characters. The source must outlive it.
struct Place {
  const YamlSource* source = nullptr;
  int line = 0;
  int column = 0;

  std::string text() const;    ///< "chexnet.yaml:14:5", or the label alone
  std::string origin() const;  ///< "chexnet.yaml:14", or the origin alone
};

/// One error, found at a place; `code` as in exit_code.
struct Problem {
  Place place;
  std::string sentence;
  int code = exit_code::kConfig;
};

/// All of them, source by source and top to bottom, as merge_errors() has them. There is one at least.
Error as_error(std::vector<Problem> problems);

/// A YAML value with its place; aliases are already replaced by their values.
struct YamlNode {
  enum class Kind { null, scalar, list, map };
  struct Entry;

  Kind kind = Kind::null;
  Place place;
  std::string text;             ///< scalar
  std::vector<YamlNode> items;  ///< list
  std::vector<Entry> entries;   ///< map, in the order of the text

  /// "a list", "a group", "nothing" or 'the scalar', shortened: for "…, not X".
  std::string what() const;
};

struct YamlNode::Entry {
  std::string key;
  Place place;
  YamlNode value;
};

/// Limits of one source; a configuration stays far below them.
inline constexpr size_t kYamlMaxBytes = size_t{1} << 20;
inline constexpr int kYamlMaxDepth = 32;
inline constexpr size_t kYamlMaxNodes = 100000;  ///< with aliases expanded

/// Reads one YAML document; an empty one is null. What is wrong is appended to `problems`; nothing is returned if
/// reading could not reach the end. Refused, with a sentence each: more than kYaml… above, anything but UTF-8 text, a
/// second document, `<<` merges, tags, duplicate keys, keys that are not plain words, aliases that form a cycle,
/// integers with leading zeros, quotes that are not closed.
std::optional<YamlNode> parse_yaml(std::string_view text, const YamlSource& source, std::vector<Problem>& problems);

}  // namespace dtrain
