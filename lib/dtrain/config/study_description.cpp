#include "dtrain/config/study_description.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/codec.hpp"
#include "dtrain/config/config_file.hpp"
#include "dtrain/config/schema.hpp"
#include "dtrain/config/sources.hpp"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kStudyKeys = {"title", "config", "overrides", "ranks", "over",    "repeat",
                                             "folds", "sample", "pack",      "tiny",  "expected"};
const std::vector<std::string> kTinyKeys = {"overrides", "ranks", "over", "repeat", "folds", "sample", "pack"};

YamlSource source_of(const std::string& path) {
  return {path, path, fs::absolute(path).parent_path().string(), 0, true};
}

// Plain where it reads back as the same text, as one would type it; `${` is expanded there as in a configuration.
std::string scalar_text(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '+' || c == '-' || c == ' ';
  };
  const YamlSource source;
  std::vector<Problem> problems;
  const std::optional<YamlNode> back = parse_value(text, source, problems);
  const bool same = back && back->kind == YamlNode::Kind::scalar && back->text == text && problems.empty();
  return same && std::all_of(text.begin(), text.end(), plain) ? text : nlohmann::json(text).dump();
}

// A value as the YAML flow text that the command line takes.
std::string flow_text(const YamlNode& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      return scalar_text(node.text);
    case YamlNode::Kind::list:
      for (const YamlNode& item : node.items) parts.push_back(flow_text(item));
      return "[" + join(parts, ", ") + "]";
    case YamlNode::Kind::map:
      for (const YamlNode::Entry& entry : node.entries) parts.push_back(entry.key + ": " + flow_text(entry.value));
      return "{" + join(parts, ", ") + "}";
  }
  return "";
}

class StudyReader {
 public:
  explicit StudyReader(std::vector<Problem>& problems) : problems_(problems), keys_(describe(scratch_)) {}

  // Every key of a map that is one of `known` goes to `take`.
  template <class Take>
  void each(const YamlNode& map, const std::string& what, const std::vector<std::string>& known, const Take& take) {
    if (map.kind != YamlNode::Kind::map)
      return refuse(map.place, what + " is a group of keys (" + join(known, ", ") + "), not " + map.what());
    for (const YamlNode::Entry& entry : map.entries) {
      if (std::find(known.begin(), known.end(), entry.key) != known.end()) {
        take(entry.key, entry.value);
        continue;
      }
      const std::string near = nearest_word(entry.key, known);
      refuse(entry.place,
             "unknown key '" + entry.key + "' in " + what +
                 (near.empty() ? "; its keys are " + join(known, ", ") : " (did you mean '" + near + "'?)"));
    }
  }

  void top(const YamlNode& root, StudyDescription& study) {
    each(root, "a study", kStudyKeys, [&](const std::string& key, const YamlNode& value) {
      if (key == "title")
        study.title = text(value, key);
      else if (key == "config")
        configurations(value, study);
      else if (key == "expected")
        expected(value, study);
      else if (key != "tiny")
        shared(key, value, study);
    });
  }

  void tiny(const YamlNode& section, StudyDescription& study) {
    each(section, "tiny", kTinyKeys, [&](const std::string& key, const YamlNode& value) { shared(key, value, study); });
  }

 private:
  void refuse(const Place& place, const std::string& sentence) { problems_.push_back({place, sentence}); }

  void shared(const std::string& key, const YamlNode& value, StudyDescription& study) {
    if (key == "overrides")
      overrides(value, study);
    else if (key == "ranks")
      study.ranks = wholes(value, key, 1);
    else if (key == "over")
      over(value, study);
    else if (key == "repeat")
      study.repeat = whole(value, key, 1);
    else if (key == "folds")
      study.folds = whole(value, key, 2);
    else if (key == "sample")
      sample(value, study);
    else
      pack(value, study);
  }

  std::string text(const YamlNode& node, const std::string& key) {
    if (node.kind != YamlNode::Kind::scalar || node.text.empty())
      refuse(node.place, key + " wants a text, not " + node.what());
    return node.text;
  }

  std::vector<std::string> texts(const YamlNode& node, const std::string& key) {
    if (node.kind != YamlNode::Kind::list) return {text(node, key)};
    std::vector<std::string> all;
    for (const YamlNode& item : node.items) all.push_back(text(item, key));
    return all;
  }

  int64_t whole(const YamlNode& node, const std::string& key, int64_t least) {
    int64_t number = 0;
    const char* end = node.text.data() + node.text.size();
    const auto [stop, error] = std::from_chars(node.text.data(), end, number);
    if (node.kind != YamlNode::Kind::scalar || error != std::errc() || stop != end || number < least)
      refuse(node.place, key + " wants a whole number from " + std::to_string(least) + " on, not " + node.what());
    return std::max(number, least);
  }

  std::vector<int64_t> wholes(const YamlNode& node, const std::string& key, int64_t least) {
    if (node.kind != YamlNode::Kind::list) return {whole(node, key, least)};
    std::vector<int64_t> all;
    for (const YamlNode& item : node.items) all.push_back(whole(item, key, least));
    if (all.empty()) refuse(node.place, key + " is an empty list");
    return all;
  }

  void configurations(const YamlNode& node, StudyDescription& study) {
    for (const std::string& file : texts(node, "config")) {
      const fs::path beside = fs::path(node.place.source->label).parent_path();
      study.configurations.push_back((beside / file).lexically_normal().string());
    }
  }

  void expected(const YamlNode& node, StudyDescription& study) {
    each(node, "expected", {"source", "figures"}, [&](const std::string& key, const YamlNode& value) {
      if (key == "source")
        study.source = text(value, "expected.source");
      else
        study.expected = texts(value, "expected.figures");
    });
    if (study.source.empty()) refuse(node.place, "expected has no source: say where its figures are from");
  }

  void overrides(const YamlNode& node, StudyDescription& study) {
    if (node.kind == YamlNode::Kind::null) return;
    if (node.kind != YamlNode::Kind::map)
      return refuse(node.place, "overrides is a group of keys of the configuration, not " + node.what());
    for (const YamlNode::Entry& entry : node.entries) {
      study.overrides.push_back(entry.key + "=" + flow_text(entry.value));
      check_word(study.overrides.back(), entry.place, entry.value.place);
    }
  }

  // over: a list of groups, or one group: {key: [values], …}. Of a list, each combines with each; of several keys in
  // one group of a list, the values belong together.
  void over(const YamlNode& node, StudyDescription& study) {
    study.over.clear();
    if (node.kind == YamlNode::Kind::null) return;
    if (node.kind == YamlNode::Kind::map) {
      for (const YamlNode::Entry& entry : node.entries) axis(entry, false, study);
      return;
    }
    if (node.kind != YamlNode::Kind::list)
      return refuse(node.place, "over wants keys with lists of values, not " + node.what());
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::map)
        return refuse(item.place, "over wants {key: [values]} in its list, not " + item.what());
      for (size_t i = 0; i < item.entries.size(); ++i) {
        axis(item.entries[i], i > 0, study);
        if (item.entries[i].value.items.size() != item.entries[0].value.items.size())
          refuse(item.entries[i].place, item.entries[i].key + " has another number of values than " +
                                            item.entries[0].key + ", to whose values they belong");
      }
    }
  }

  void axis(const YamlNode::Entry& entry, bool beside, StudyDescription& study) {
    StudyAxis axis{entry.key, {}, beside};
    if (entry.value.kind != YamlNode::Kind::list || entry.value.items.empty())
      return refuse(entry.place, "over." + entry.key + " wants a list of values, not " + entry.value.what());
    for (const YamlNode& item : entry.value.items) {
      axis.values.push_back(flow_text(item));
      check_word(entry.key + "=" + axis.values.back(), entry.place, item.place);
    }
    study.over.push_back(std::move(axis));
  }

  void sample(const YamlNode& node, StudyDescription& study) {
    StandIn& sample = study.sample.emplace();
    each(node, "sample", {"kind", "count", "size"}, [&](const std::string& key, const YamlNode& value) {
      if (key == "kind") {
        sample.kind = text(value, "sample.kind");
      } else if (key == "count") {
        sample.count = whole(value, "sample.count", 1);
      } else if (const auto sides = wholes(value, "sample.size", 16); sides.size() == 2) {
        sample.height = sides[0];
        sample.width = sides[1];
      } else {
        refuse(value.place, "sample.size wants [height, width]");
      }
    });
    if (sample.kind != "xray" && sample.kind != "chips" && sample.kind != "cells")
      refuse(node.place, "sample.kind wants xray, chips or cells");
  }

  void pack(const YamlNode& node, StudyDescription& study) {
    study.pack.reset();
    if (node.kind == YamlNode::Kind::null) return;
    PackedCopy& pack = study.pack.emplace();
    each(node, "pack", {"to", "samples_per_shard", "expand"}, [&](const std::string& key, const YamlNode& value) {
      if (key == "to")
        pack.to = text(value, "pack.to");
      else if (key == "expand")
        pack.expand = texts(value, "pack.expand");
      else
        pack.samples_per_shard = whole(value, "pack.samples_per_shard", 1);
    });
  }

  // What is wrong with a key or its value alone is told here, at its place in the file.
  void check_word(const std::string& word, const Place& key_place, const Place& value_place) {
    Settings settings = collect_settings({.files = {}, .environment = false, .overrides = {word}}, keys_);
    for (const Problem& problem : settings.problems) refuse(key_place, problem.sentence);
    for (Setting& setting : settings.all) {
      const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == setting.key; });
      std::vector<Problem> unset;
      expand_variables(setting.value, unset);
      for (const Problem& problem : unset) refuse(value_place, problem.sentence);
      if (setting.value.kind == YamlNode::Kind::null || !unset.empty()) continue;
      const std::string wrong = key->codec.read(setting.value, {fs::current_path().string(), ""});
      if (!wrong.empty()) refuse(value_place, setting.key + " " + wrong);
    }
  }

  std::vector<Problem>& problems_;
  Experiment scratch_;  // what values are tried on
  std::vector<Key> keys_;
};

// The study.yaml of a study's folder says what the keys of all points have in common, not which file they came from.
void refuse_own_output(const YamlNode& root, const std::string& path) {
  if (std::any_of(root.entries.begin(), root.entries.end(), [](const auto& entry) { return entry.key == "study"; }))
    throw UsageError(path +
                     " is what dtrain sweep has written into a study's folder; give the file or the command that "
                     "it was started with");
}

}  // namespace

bool is_study(const std::string& path) {
  if (!fs::is_regular_file(path)) return false;
  const YamlSource source = source_of(path);
  std::vector<Problem> ignored;
  std::optional<YamlNode> root;
  try {
    root = parse_yaml(read_config_file(path), source, ignored);
  } catch (const Error&) {
    return false;
  }
  return root && std::any_of(root->entries.begin(), root->entries.end(), [](const YamlNode::Entry& entry) {
           return std::find(kStudyKeys.begin(), kStudyKeys.end(), entry.key) != kStudyKeys.end();
         });
}

StudyDescription read_study(const std::string& path, bool tiny) {
  const YamlSource source = source_of(path);
  std::vector<Problem> problems;
  StudyDescription study;
  if (const std::optional<YamlNode> root = parse_yaml(read_config_file(path), source, problems)) {
    refuse_own_output(*root, path);
    StudyReader reader(problems);
    reader.top(*root, study);
    if (study.configurations.empty() && problems.empty())
      problems.push_back({root->place, "a study names its configuration: config: FILE.yaml, relative to this file"});
    const auto section = std::find_if(root->entries.begin(), root->entries.end(),
                                      [](const YamlNode::Entry& entry) { return entry.key == "tiny"; });
    if (section != root->entries.end()) {
      StudyDescription small = study;
      reader.tiny(section->value, small);
      if (tiny) study = std::move(small);
    } else if (tiny && problems.empty()) {
      throw UsageError(path + " has no section 'tiny', so --tiny has nothing to take from it");
    }
  }
  if (!problems.empty()) throw as_error(std::move(problems));
  return study;
}

}  // namespace dtrain
