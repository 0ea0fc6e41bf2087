#include "commands/report_map.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/config/yaml_tree.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {
namespace {

const std::vector<std::string> kKeys = {"columns", "ranks", "ranks_column", "series", "epochs"};

/// Collects what is wrong, so that all of it is said at once.
class MapReader {
 public:
  MapReader(ColumnMap& map, std::vector<Problem>& problems) : map_(map), problems_(problems) {}

  void read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::map)
      return problem(root.place, "a column map is a group of keys (" + join(kKeys, ", ") + "), not " + root.what());
    for (const YamlNode::Entry& entry : root.entries) read_key(entry);
    if (map_.columns.empty() && problems_.empty())
      problem(root.place, "names no columns; write columns: {their column: ours}, such as {loss: train_loss}");
    if (map_.ranks.empty() == map_.ranks_column.empty() && problems_.empty())
      problem(root.place,
              "needs one of ranks (an expression for file names, such as 'log_(\\d+)\\.csv') and ranks_column");
  }

 private:
  void problem(const Place& place, const std::string& sentence) { problems_.push_back({place, sentence}); }

  void read_key(const YamlNode::Entry& entry) {
    if (entry.key == "columns") return read_columns(entry.value);
    const std::string text = scalar(entry);
    if (entry.key == "ranks") read_ranks(entry.value, text);
    if (entry.key == "ranks_column") map_.ranks_column = text;
    if (entry.key == "series") map_.series = text;
    if (entry.key == "epochs") read_epochs(entry.value, text);
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) != kKeys.end()) return;
    const std::string near = nearest_word(entry.key, kKeys);
    problem(entry.place, "unknown key '" + entry.key + "'" +
                             (near.empty() ? "; there are " + join(kKeys, ", ") : " (did you mean '" + near + "'?)"));
  }

  std::string scalar(const YamlNode::Entry& entry) {
    if (entry.value.kind == YamlNode::Kind::scalar && !entry.value.text.empty()) return entry.value.text;
    problem(entry.value.place, entry.key + " is a text, not " + entry.value.what());
    return "";
  }

  void read_columns(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::map)
      return problem(node.place, "columns is a group of their column: ours, not " + node.what());
    std::set<std::string> taken;
    for (const YamlNode::Entry& entry : node.entries) {
      const std::string ours = scalar(entry);
      if (ours.empty()) continue;
      if (!is_known_column(ours))
        problem(entry.value.place, "'" + ours + "' is no column of epochs.csv; there are " +
                                       join(mapped_columns(), ", ") + ", and valid_ and train_ of a metric");
      if (!taken.insert(ours).second) problem(entry.value.place, "two columns are mapped to '" + ours + "'");
      map_.columns[entry.key] = ours;
    }
  }

  void read_ranks(const YamlNode& node, const std::string& text) {
    if (text.empty()) return;
    if (const std::string why = why_no_ranks_pattern(text); !why.empty())
      return problem(node.place, "ranks: '" + text + "' " + why);
    map_.ranks = text;
  }

  // "2", "2-200"
  void read_epochs(const YamlNode& node, const std::string& text) {
    if (text.empty()) return;
    const std::vector<std::string> ends = split_text(text, '-');
    std::vector<int64_t> epochs;
    for (const std::string& end : ends) {
      int64_t epoch = 0;
      const auto [stop, error] = std::from_chars(end.data(), end.data() + end.size(), epoch);
      if (error == std::errc() && stop == end.data() + end.size() && epoch > 0) epochs.push_back(epoch);
    }
    if (epochs.size() != ends.size() || epochs.size() > 2 || epochs.front() > epochs.back())
      return problem(node.place, "epochs: '" + text + "' is not an epoch or a range of them, such as 2 or 2-200");
    map_.steady = {static_cast<double>(epochs.front()), static_cast<double>(epochs.back())};
  }

  ColumnMap& map_;
  std::vector<Problem>& problems_;
};

}  // namespace

ColumnMap read_column_map(const std::string& file) {
  ColumnMap map{.name = file};
  const YamlSource source{.label = file, .origin = file, .base_dir = ""};
  std::vector<Problem> problems;
  const std::optional<YamlNode> root =
      parse_yaml(read_text(file, static_cast<int64_t>(kYamlMaxBytes) + 1), source, problems);
  if (root) MapReader(map, problems).read(*root);
  if (!problems.empty()) throw as_error(problems);
  if (map.series.empty()) map.series = "other";
  return map;
}

}  // namespace dtrain
