#include "dtrain/draft/draft_text.hpp"

#include <algorithm>
#include <set>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

constexpr size_t kColumns = 100;
constexpr size_t kReasonColumn = 40;

// Without data.root in front, for keys whose paths may be relative to it.
std::string beneath_own_root(const Key& key, const std::string& text, const std::string& root) {
  const bool under_root = key.name == "data.labels" || key.name.starts_with("data.split.files.");
  const size_t at = text.find(root + "/");
  if (!under_root || root.empty() || at > 1 || at == std::string::npos) return text;
  std::string shorter = text;
  return shorter.erase(at, root.size() + 1);
}

/// What a tree of keys needs to be written in the order of the schema.
struct Order {
  std::vector<std::string> names;

  Order() {
    Experiment any;
    for (const Key& key : describe(any)) names.push_back(key.name);
  }
  // A group's place is that of its first key.
  size_t place(const std::string& key) const {
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name == key || name.starts_with(key + ".");
    });
    return static_cast<size_t>(found - names.begin());
  }
};

// Leaves {path below the group, text} as a flow map.
std::string flow_map(const std::vector<std::pair<std::string, std::string>>& leaves) {
  std::vector<std::string> entries;
  for (size_t i = 0; i < leaves.size();) {
    const std::string& name = leaves[i].first;
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      entries.push_back(name + ": " + leaves[i++].second);
      continue;
    }
    const std::string group = name.substr(0, dot + 1);
    std::vector<std::pair<std::string, std::string>> inner;
    for (; i < leaves.size() && leaves[i].first.starts_with(group); ++i)
      inner.emplace_back(leaves[i].first.substr(group.size()), leaves[i].second);
    entries.push_back(name.substr(0, dot) + ": " + flow_map(inner));
  }
  return "{" + join(entries, ", ") + "}";
}

size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Writes one line after another and opens the groups they need.
class Writer {
 public:
  explicit Writer(const std::vector<DraftLine>& lines) {
    for (const DraftLine& line : lines)
      if (!line.off)
        for (std::string group = line.key; group.find('.') != std::string::npos;) {
          group.resize(group.rfind('.'));
          groups_.insert(group);
        }
  }

  void write(const DraftLine& line, std::string value) {
    std::vector<std::string> parts = split_text(line.key, '.');
    std::string group = line.key.substr(0, line.key.size() - parts.back().size());
    while (line.off && parts.size() > 1 && !groups_.contains(group.substr(0, group.size() - 1))) {
      value = "{" + parts.back() + ": " + value + "}";
      parts.pop_back();
      group.resize(group.size() - parts.back().size() - 1);
    }
    open(parts);
    const std::string indent(2 * (parts.size() - 1), ' ');
    const std::string text = indent + (line.off ? "# " : "") + parts.back() + ": " + value;
    const std::string why = printable(line.why);
    const size_t width = columns_of(text);
    const size_t gap = width + 2 < kReasonColumn ? kReasonColumn - width : 2;
    if (why.empty()) {
      out_ += text + "\n";
    } else if (width + gap + 2 + columns_of(why) <= kColumns) {
      out_ += text + std::string(gap, ' ') + "# " + why + "\n";
    } else {
      out_ += comment_lines(why, indent) + text + "\n";
    }
    lines_.emplace(line.key, std::count(out_.begin(), out_.end(), '\n'));
  }

  std::string text() && { return std::move(out_); }
  /// Key → its first line, from 1.
  const std::map<std::string, int64_t>& lines() const { return lines_; }

 private:
  void open(const std::vector<std::string>& parts) {
    size_t same = 0;
    while (same + 1 < parts.size() && same < open_.size() && parts[same] == open_[same]) ++same;
    for (size_t i = same; i + 1 < parts.size(); ++i) {
      if (i == 0 && !out_.empty()) out_ += '\n';
      out_ += std::string(2 * i, ' ') + parts[i] + ":\n";
    }
    open_.assign(parts.begin(), parts.end() - 1);
  }

  std::set<std::string> groups_;  // that have a line which is on
  std::vector<std::string> open_;
  std::string out_;
  std::map<std::string, int64_t> lines_;
};

}  // namespace

std::string text_of_key(const Experiment& experiment, const std::string& name) {
  Experiment e = experiment;
  for (const Key& key : describe(e))
    if (key.name == name) return beneath_own_root(key, key.codec.print(), e.data.root);
  return "";
}

std::string text_of_group(const Experiment& experiment, const std::string& group) {
  Experiment e = experiment;
  Experiment untouched;
  const std::vector<Key> usual = describe(untouched);
  std::vector<std::pair<std::string, std::string>> leaves;
  size_t i = 0;
  for (const Key& key : describe(e)) {
    const std::string before = usual[i++].codec.print();
    const std::string text = beneath_own_root(key, key.codec.print(), e.data.root);
    if (text == before || text.empty()) continue;
    if (key.name == group) return text;
    if (key.name.starts_with(group + ".") && key.has_effect)
      leaves.emplace_back(key.name.substr(group.size() + 1), text);
  }
  return leaves.empty() ? "" : flow_map(leaves);
}

std::vector<std::string> keys_that_differ(const DataOptions& data) {
  Experiment e;
  e.data = data;
  Experiment untouched;
  const std::vector<Key> usual = describe(untouched);
  std::vector<std::string> names;
  size_t i = 0;
  for (const Key& key : describe(e)) {
    const std::string before = usual[i++].codec.print();
    const bool told = key.name == "data.format" || key.name == "data.root";
    if (key.name.starts_with("data.") && key.has_effect && (told || key.codec.print() != before))
      names.push_back(key.name);
  }
  return names;
}

std::string comment_lines(const std::string& text, const std::string& indent) {
  std::string out;
  std::string line;
  for (const std::string& word : split_text(text, ' ')) {
    if (!line.empty() && indent.size() + 3 + columns_of(line) + columns_of(word) > kColumns) {
      out += indent + "# " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + indent + "# " + line + "\n";
}

std::string draft_yaml(const Experiment& experiment, const std::vector<DraftLine>& lines,
                       std::map<std::string, int64_t>* line_of) {
  const Order order;
  std::vector<const DraftLine*> sorted;
  for (const DraftLine& line : lines) sorted.push_back(&line);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const DraftLine* a, const DraftLine* b) { return order.place(a->key) < order.place(b->key); });
  Writer writer(lines);
  for (const DraftLine* line : sorted)
    writer.write(*line, line->text.empty() ? text_of_key(experiment, line->key) : line->text);
  if (line_of != nullptr) *line_of = writer.lines();
  return std::move(writer).text();
}

}  // namespace dtrain
