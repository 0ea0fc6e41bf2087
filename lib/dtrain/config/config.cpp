#include "dtrain/config/config.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "dtrain/base/text.hpp"
#include "dtrain/config/checks.hpp"
#include "dtrain/config/schema.hpp"
#include "dtrain/config/sources.hpp"

namespace dtrain {

namespace {

constexpr size_t kMostErrors = 100;

/// Source by source, top to bottom.
void sort_problems(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    const auto rank = [](const Problem& p) {
      return std::tuple(p.place.source == nullptr ? 0 : p.place.source->order, p.place.line, p.place.column);
    };
    return rank(a) < rank(b);
  });
}

/// Reads the settings into an Experiment. The last setting of a key counts; earlier ones are read too, into a scratch
/// copy, so that errors in any file are reported.
class Reader {
 public:
  explicit Reader(Settings& settings) : settings_(settings) {
    for (size_t i = 0; i < settings.all.size(); ++i) {
      const Setting& setting = settings.all[i];
      if (setting.value.kind == YamlNode::Kind::null && !last_.contains(setting.key)) {
        const YamlNode& null = setting.value;
        settings.problems.push_back({null.place, setting.key + " has no value"});
        bad_.insert(setting.key);
      }
      last_[setting.key] = i;
    }
  }

  /// In the schema's order, so that data.root is known before the paths under it.
  void read(Experiment& experiment) {
    std::vector<Key> keys = describe(experiment);
    for (const Key& key : keys) read_key(key, experiment.data.root);
  }

  std::map<std::string, Place> given() const {
    std::map<std::string, Place> places;
    for (const auto& [key, i] : last_)
      if (settings_.all[i].value.kind != YamlNode::Kind::null) places[key] = settings_.all[i].value.place;
    return places;
  }

  const std::set<std::string>& bad() const { return bad_; }

 private:
  void read_key(const Key& key, const std::string& data_root) {
    const auto last = last_.find(key.name);
    if (last == last_.end()) return;
    for (size_t i = 0; i < last->second; ++i)
      if (settings_.all[i].key == key.name) read_overridden(key, settings_.all[i].value);
    YamlNode value = settings_.all[last->second].value;
    if (value.kind == YamlNode::Kind::null) return;
    const size_t before = settings_.problems.size();
    if (refused_already(value.place)) {
      bad_.insert(key.name);
      return;
    }
    expand_variables(value, settings_.problems);
    if (settings_.problems.size() == before) {
      const std::string wrong = key.codec.read(value, {value.place.source->base_dir, data_root});
      if (!wrong.empty()) settings_.problems.push_back({value.place, key.name + " " + wrong});
    }
    if (settings_.problems.size() != before) bad_.insert(key.name);
  }

  /// The parser has already reported what is wrong with this value.
  bool refused_already(const Place& place) const {
    return std::any_of(settings_.problems.begin(), settings_.problems.end(), [&](const Problem& problem) {
      const Place& other = problem.place;
      return place.text() == other.text();
    });
  }

  // An unset variable does no harm if another value is used.
  void read_overridden(const Key& key, YamlNode value) {
    std::vector<Problem> ignored;
    expand_variables(value, ignored);
    if (value.kind == YamlNode::Kind::null || !ignored.empty() || refused_already(value.place)) return;
    Experiment scratch;
    for (const Key& twin : describe(scratch))
      if (twin.name == key.name)
        if (const std::string wrong = twin.codec.read(value, {value.place.source->base_dir, ""}); !wrong.empty())
          settings_.problems.push_back({value.place, key.name + " " + wrong});
  }

  Settings& settings_;
  std::map<std::string, size_t> last_;
  std::set<std::string> bad_;
};

std::map<std::string, Config::Value> values_of(Experiment& experiment, const std::map<std::string, Place>& given) {
  std::map<std::string, Config::Value> values;
  for (const Key& key : describe(experiment)) {
    const std::string text = key.codec.print();
    if (!key.has_effect || text.empty()) continue;
    if (key.name == "batch.global" && experiment.batch.global == 0) continue;
    const SplitOptions& split = experiment.data.split;
    if (key.name == "data.split.valid" && split.names("train") && split.valid == 0)
      continue;  // as before it had an effect
    // Without a split in the configuration the folders decide; a printed one would take that away.
    if (key.name.starts_with("data.split.") && !experiment.data.split.given) continue;
    const auto place = given.find(key.name);
    values[key.name] = {text, place == given.end() ? kDefaultOrigin : place->second.origin()};
  }
  return values;
}

}  // namespace

Error as_error(std::vector<Problem> problems) {
  sort_problems(problems);
  std::vector<Error> errors;
  std::set<std::string> said;
  size_t left_out = 0;
  for (const Problem& problem : problems) {
    const std::string place = problem.place.text();
    const std::string line = (place.empty() ? "" : place + ": ") + problem.sentence;
    if (!said.insert(line).second) continue;
    if (errors.size() < kMostErrors) {
      errors.emplace_back(problem.code, line);
    } else {
      ++left_out;
    }
  }
  if (left_out > 0)
    errors.emplace_back(exit_code::kConfig, "… and " + count_of(static_cast<int64_t>(left_out), "more error"));
  return merge_errors(errors);
}

Config load_config(const ConfigSources& sources) {
  Config config;
  Experiment& experiment = config.experiment;
  Settings settings = collect_settings(sources, describe(experiment));
  Reader reader(settings);
  reader.read(experiment);
  const std::map<std::string, Place> given = reader.given();
  std::set<std::string> names;
  for (const auto& [key, place] : given) names.insert(key);
  if (!names.contains("name") && !sources.files.empty())
    if (const std::string stem = std::filesystem::path(sources.files[0]).stem().string(); !stem.empty())
      experiment.name = stem;
  fill_defaults(experiment, names);
  const YamlSource nameless{"configuration", "configuration", "", 0, false};
  const Place nowhere{settings.sources.empty() ? &nameless : &settings.sources.front(), 0, 0};
  if (settings.complete)
    for (Problem& problem : find_conflicts(experiment, given, reader.bad(), nowhere))
      settings.problems.push_back(std::move(problem));
  if (!settings.problems.empty()) throw as_error(settings.problems);
  config.values = values_of(experiment, given);
  const auto& used = settings.sources;
  if (std::any_of(used.begin(), used.end(), [](const YamlSource& source) { return source.of_a_run; }))
    keep_values_of_run(config, {});
  return config;
}

}  // namespace dtrain
