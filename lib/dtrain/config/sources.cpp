#include "dtrain/config/sources.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/config/config_file.hpp"
#include "dtrain/config/habits.hpp"

extern char** environ;

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kVariable = "DTRAIN_CONFIG__";  // begins the names of variables that set keys

std::string parent_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string last_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string shown(const std::string& text) { return text.size() <= 80 ? text : text.substr(0, 77) + "…"; }

class Collector {
 public:
  Collector(const std::vector<Key>& keys, Settings& out) : out_(out) {
    for (const Group& group : groups())
      if (group.may_be_none) may_be_none_.insert(group.name);
    for (const Key& key : keys) {
      leaves_.insert(key.name);
      for (std::string group = key.name; !group.empty();) {
        const std::string child = group;
        group = parent_of(group);
        std::vector<std::string>& children = children_[group];
        if (std::find(children.begin(), children.end(), last_of(child)) == children.end())
          children.push_back(last_of(child));
      }
    }
  }

  void file(const std::string& path) {
    const fs::path folder = fs::absolute(path).parent_path();
    std::error_code none;
    const bool stored = fs::path(path).filename() == "config.yaml" && fs::exists(folder / "run.json", none);
    YamlSource& source = new_source({path, path, folder.string(), 0, true, stored});
    try {
      text(read_config_file(path), source);
    } catch (const Error& error) {
      out_.complete = false;
      source.positions = false;
      source.label.clear();  // the message names the file
      out_.problems.push_back({{&source, 0, 0}, error.what(), error.code()});
    }
  }

  /// `path`: the weights file that holds it, which a run has written; no file for a draft that is tried.
  void stored(const std::string& yaml, const std::string& path) {
    std::error_code none;
    const bool of_a_run = fs::is_regular_file(path, none);
    text(yaml,
         new_source({"configuration in " + path, path, fs::absolute(path).parent_path().string(), 0, true, of_a_run}));
  }

  void environment() {
    std::map<std::string, std::string> found;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view line = *entry;
      const size_t equals = line.find('=');
      if (equals == std::string_view::npos || !line.starts_with(kVariable)) continue;
      found.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    reading_variables_ = true;
    for (const auto& [name, value] : found) {
      std::string key = lower_case(std::string_view(name).substr(kVariable.size()));
      for (size_t at = key.find("__"); at != std::string::npos; at = key.find("__")) key.replace(at, 2, ".");
      assign(key, value,
             new_source({"environment: " + shown(name + "=" + value), name, fs::current_path().string(), 0, false}));
    }
    reading_variables_ = false;
  }

  void override_with(const std::string& text) {
    YamlSource& source =
        new_source({"command line: " + shown(text), "command line", fs::current_path().string(), 0, false});
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      out_.problems.push_back(
          {{&source, 0, 0}, "not of the form key=value, such as optimizer.learning_rate=0.0005", exit_code::kUsage});
      return;
    }
    assign(text.substr(0, equals), text.substr(equals + 1), source);
  }

 private:
  void text(const std::string& yaml, const YamlSource& source) {
    const std::optional<YamlNode> read = parse_yaml(yaml, source, out_.problems);
    out_.complete = out_.complete && read.has_value();
    const YamlNode root = read.value_or(YamlNode());
    if (root.kind == YamlNode::Kind::map) {
      group("", root);
    } else if (root.kind != YamlNode::Kind::null) {
      problem(root.place, "a configuration is a group of keys (" + shown_children("") + "), not " + root.what());
    }
  }

  YamlSource& new_source(YamlSource source) {
    source.order = static_cast<int>(out_.sources.size());
    out_.sources.push_back(std::move(source));
    return out_.sources.back();
  }

  void problem(const Place& place, const std::string& sentence) { out_.problems.push_back({place, sentence}); }

  void assign(const std::string& key, const std::string& text, const YamlSource& source) {
    std::optional<YamlNode> value = parse_value(text, source, out_.problems);
    out_.complete = out_.complete && value.has_value();
    if (!value) return;
    value->place = {&source, 0, 0};
    entry(key, *value, {&source, 0, 0});
  }

  /// `key` is complete: sets it, or opens the group that it names.
  void entry(const std::string& key, const YamlNode& value, const Place& place) {
    if (leaves_.contains(key)) {
      out_.all.push_back({key, value});
    } else if (!children_.contains(key) || key.empty()) {
      problem(place, unknown(key));
    } else if (value.kind == YamlNode::Kind::map) {
      group(key, value);
    } else if (value.kind == YamlNode::Kind::null) {
      take_back(key, value);
    } else if (value.kind == YamlNode::Kind::scalar && value.text == "none" && may_be_none_.contains(key)) {
      YamlNode nothing = value;
      nothing.kind = YamlNode::Kind::null;
      take_back(key, nothing);
    } else {
      const std::string likely = value.kind == YamlNode::Kind::scalar ? key_of_group(key) : "";
      problem(value.place, key + " is a group of keys (" + shown_children(key) + "), not " + value.what() +
                               (likely.empty() ? "" : " (did you mean '" + likely + "'?)"));
    }
  }

  void group(const std::string& prefix, const YamlNode& map) {
    for (const YamlNode::Entry& child : map.entries) {
      const std::string key = prefix.empty() ? child.key : prefix + "." + child.key;
      if (child.key.find(':') != std::string::npos) {
        problem(child.place, unknown(key));
      } else if (child.key.find('.') != std::string::npos) {
        const std::string nest =
            leaves_.contains(key) ? " (nest it: '" + last_of(key) + "' inside '" + parent_of(key) + "')" : "";
        problem(child.place, "unknown key '" + shown(key) + "'" + nest);
      } else {
        entry(key, child.value, child.place);
      }
    }
  }

  /// A group without a value undoes every key of it that earlier sources set.
  void take_back(const std::string& prefix, const YamlNode& null) {
    std::set<std::string> set_below;
    for (const Setting& setting : out_.all)
      if (setting.key.starts_with(prefix + ".")) set_below.insert(setting.key);
    for (const std::string& key : set_below) out_.all.push_back({key, null});
  }

  std::string shown_children(const std::string& group) const { return join(children_.at(group), ", "); }

  std::string unknown(const std::string& key) const {
    std::string known;  // the part of the key that names a group
    size_t begin = 0;
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
      const std::string prefix = key.substr(0, dot);
      if (!children_.contains(prefix)) break;
      known = prefix;
      begin = dot + 1;
    }
    const size_t end = key.find('.', begin);
    const std::string word = key.substr(begin, end == std::string::npos ? end : end - begin);
    const std::string head = "unknown key '" + shown(key) + "'";
    if (const size_t colon = word.find(':'); colon != std::string::npos)  // {a:1} is one word of YAML
      return head + "; YAML wants a space after the colon: '" +
             shown(key.substr(begin, colon) + ": " + key.substr(begin + colon + 1)) + "'";
    constexpr size_t kLongest = 256;  // longer ones are nobody's habit
    if (key.size() > kLongest || word.size() > 64) return head;
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!word.empty() && std::all_of(word.begin(), word.end(), is_digit))
      return head + "; a comma ends a value here: write numbers with a point, as in 0.001";
    if (const std::string same = reading_variables_ ? same_letters(key) : ""; !same.empty())
      return head + " (did you mean '" + same + "'? In a variable's name two underscores stand for the dot)";
    if (const Habit* habit = habit_behind(key))
      return head + (*habit->key == '\0' ? std::string("; ") + habit->instead
                                         : " (did you mean '" + std::string(habit->key) + "'?)");
    return head + hint(known, lower_case(word), end == std::string::npos ? "" : key.substr(end));
  }

  // The key of a group that `key` is when its dots are underscores, as in optimizer_learning_rate; "" if there is none.
  std::string same_letters(const std::string& key) const {
    std::string plain = lower_case(key);
    std::replace(plain.begin(), plain.end(), '.', '_');
    for (std::string leaf : leaves_) {
      const std::string name = leaf;
      std::replace(leaf.begin(), leaf.end(), '.', '_');
      if (leaf == plain && name.find('.') != std::string::npos && name != key) return name;
    }
    return "";
  }

  std::string hint(const std::string& group, const std::string& word, const std::string& rest) const {
    if (const std::string near = nearest_word(word, children_.at(group)); !near.empty()) {
      if (rest.empty()) return " (did you mean '" + near + "'?)";
      const std::string full = (group.empty() ? "" : group + ".") + near;
      return " (did you mean '" + (leaves_.contains(full + rest) ? full + rest : full) + "'?)";
    }
    std::vector<std::string> ends;
    for (const std::string& leaf : leaves_) ends.push_back(last_of(leaf));
    const bool too_short = word.size() < 4;  // to be similar to anything except by chance
    const std::string near = too_short ? "" : nearest_word(word, ends);
    for (const std::string& leaf : leaves_)
      if (!near.empty() && last_of(leaf) == near) return " (did you mean '" + leaf + "'?)";
    return group.empty() ? "; dtrain --print-schema=markdown lists all keys"
                         : "; the keys of " + group + " are " + shown_children(group);
  }

  Settings& out_;
  bool reading_variables_ = false;  // of the environment
  std::set<std::string> leaves_;
  std::set<std::string> may_be_none_;
  std::map<std::string, std::vector<std::string>> children_;  // group → last words, in the schema's order
};

bool name_character(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

// The value of what is between `${` and `}`; if there is none, "" and a sentence in `wrong`.
std::string variable_value(const std::string& inside, std::string& wrong) {
  size_t length = 0;
  while (length < inside.size() && name_character(inside[length], length == 0)) ++length;
  const std::string name = inside.substr(0, length);
  const std::string rest = inside.substr(length);
  if (name.empty() || !(rest.empty() || rest.starts_with(":-"))) {
    wrong = "'${" + shown(inside) + "}' is neither ${NAME} nor ${NAME:-default}";
    return "";
  }
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && (*value != '\0' || rest.empty())) return value;
  if (rest.empty()) wrong = "the variable " + name + " is not set; set it, or give a default as ${" + name + ":-value}";
  return rest.empty() ? "" : rest.substr(2);
}

std::string expanded(const std::string& text, std::string& wrong) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 3, "$${") == 0) {
      out += "${";
      at += 3;
    } else if (text.compare(at, 2, "${") == 0) {
      const size_t end = text.find('}', at);
      if (end == std::string::npos) {
        wrong = "'${' without its '}'; write '$${' for a literal '${'";
        return text;
      }
      out += variable_value(text.substr(at + 2, end - at - 2), wrong);
      at = end + 1;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace

void expand_variables(YamlNode& node, std::vector<Problem>& problems) {
  if (node.kind == YamlNode::Kind::scalar && node.text.find("${") != std::string::npos) {
    std::string wrong;
    node.text = expanded(node.text, wrong);
    if (!wrong.empty()) problems.push_back({node.place, wrong});
  }
  for (YamlNode& item : node.items) expand_variables(item, problems);
  for (YamlNode::Entry& entry : node.entries) expand_variables(entry.value, problems);
}

std::optional<YamlNode> parse_value(const std::string& text, const YamlSource& source, std::vector<Problem>& problems) {
  if (text == "|" || text == ">") return parse_yaml("'" + text + "'", source, problems);
  return parse_yaml(text, source, problems);
}

void read_back(const Key& key, const std::string& text) {
  const YamlSource source{"printed value", "", "/", 0, false};
  std::vector<Problem> problems;
  YamlNode value = parse_value(text, source, problems).value_or(YamlNode());
  expand_variables(value, problems);
  const std::string wrong = key.codec.read(value, {"/", ""});
  check(problems.empty() && wrong.empty(),
        "the configuration cannot read back its own " + key.name + ": " + text + " " + wrong);
}

Settings collect_settings(const ConfigSources& from, const std::vector<Key>& keys) {
  Settings settings;
  Collector collector(keys, settings);
  if (!from.stored.empty()) collector.stored(from.stored, from.stored_in);
  for (const std::string& path : from.files) collector.file(path);
  if (from.environment) collector.environment();
  for (const std::string& text : from.overrides) collector.override_with(text);
  return settings;
}

std::vector<std::string> overlooked_variables() {
  constexpr std::string_view kOurs = "DTRAIN_";
  const auto letters = [](const std::string& name) {
    std::string only = lower_case(name);
    std::erase_if(only, [](char c) { return c == '_' || c == '.'; });
    return only;
  };
  std::map<std::string, std::string> keys;  // by their letters
  Experiment any;
  for (const Key& key : describe(any)) keys.emplace(letters(key.name), key.name);
  std::vector<std::string> sentences;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string line = *entry;
    const std::string name = line.substr(0, line.find('='));
    if (name.starts_with(kVariable) && name.size() + 1 == line.size())
      sentences.push_back("the variable " + name +
                          " is empty, which takes back what files say of its key; if that is "
                          "not meant, unset it");
    if (!name.starts_with(kOurs) || name.starts_with(kVariable)) continue;
    const std::string rest = name.substr(kOurs.size());
    const bool of_config = rest.starts_with("CONFIG_");
    const auto key = keys.find(letters(of_config ? rest.substr(7) : rest));
    const bool too_short = !of_config && key != keys.end() && key->second.find('.') == std::string::npos;
    if (key == keys.end() || too_short) continue;
    std::string right;
    for (const char c : key->second) right += c == '.' ? "__" : std::string(1, static_cast<char>(std::toupper(c)));
    sentences.push_back("the variable " + name + " sets nothing: " + key->second + " is set by " +
                        std::string(kVariable) + right + ", with two underscores after CONFIG and for a dot");
  }
  std::sort(sentences.begin(), sentences.end());
  return sentences;
}

}  // namespace dtrain
