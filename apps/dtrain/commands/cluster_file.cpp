#include "commands/cluster_file.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/config_file.hpp"
#include "dtrain/config/yaml_tree.hpp"

namespace dtrain {
namespace {

using Took = std::function<void(const YamlNode&)>;

/// Takes the values of a description, and collects what is wrong with them.
class ClusterReader {
 public:
  std::vector<Problem> problems;

  /// Each key of a group goes to its taker; those in `needed` must be there.
  void group(const YamlNode& node, const std::string& name, const std::map<std::string, Took>& takers,
             const std::set<std::string>& needed) {
    std::vector<std::string> keys;
    for (const auto& [key, take] : takers) keys.push_back(key);
    if (node.kind != YamlNode::Kind::map) {
      refuse(node.place, name + " is a group of keys (" + join(keys, ", ") + "), not " + node.what());
      return;
    }
    std::set<std::string> missing = needed;
    for (const YamlNode::Entry& entry : node.entries) {
      missing.erase(entry.key);
      if (const auto taker = takers.find(entry.key); taker != takers.end()) {
        taker->second(entry.value);
        continue;
      }
      const std::string near = nearest_word(entry.key, keys);
      refuse(entry.place, "unknown key '" + entry.key + "' of " + name +
                              (near.empty() ? "; there are " + join(keys, ", ") : " (did you mean '" + near + "'?)"));
    }
    for (const std::string& key : missing) refuse(node.place, name + " lacks '" + key + "'");
  }

  /// A number from `least`, times `unit`.
  Took number(double& field, double unit, double least) {
    return [this, &field, unit, least](const YamlNode& node) {
      char* end = nullptr;
      const double value = std::strtod(node.text.c_str(), &end);
      const bool is_number = node.kind == YamlNode::Kind::scalar && !node.text.empty() && *end == '\0';
      if (!is_number || !(value >= least) || !(value <= 1e9))
        refuse(node.place, "a number from " + shortest(least) + " to 1e9 is wanted, not " + node.what());
      else
        field = value * unit;
    };
  }

  Took count(int64_t& field) {
    return [this, &field](const YamlNode& node) {
      double value = 0;
      const size_t before = problems.size();
      number(value, 1, 1)(node);
      if (problems.size() > before) return;
      if (value != std::floor(value) || value > kMostRanks)
        refuse(node.place, "a whole number from 1 to " + std::to_string(kMostRanks) + " is wanted, not " + node.what());
      else
        field = static_cast<int64_t>(value);
    };
  }

  Took text(std::string& field) {
    return [this, &field](const YamlNode& node) {
      if (node.kind == YamlNode::Kind::scalar)
        field = node.text;
      else
        refuse(node.place, "a text is wanted, not " + node.what());
    };
  }

 private:
  void refuse(const Place& place, const std::string& sentence) { problems.push_back({place, sentence}); }
};

constexpr double kLeastRate = 1e-6;  // GB/s

}  // namespace

Cluster read_cluster(const std::string& path) {
  const std::string yaml = read_config_file(path);
  const YamlSource source{path, path, std::filesystem::absolute(path).parent_path().string()};
  ClusterReader reader;
  Cluster cluster;
  const auto link = [&](const std::string& name, Link& its, bool has_messages) {
    return [&reader, &cluster, &its, name, has_messages](const YamlNode& node) {
      std::map<std::string, Took> takers = {{"latency_us", reader.number(its.latency_s, 1e-6, 0)},
                                            {"gb_per_s", reader.number(its.bytes_per_s, 1e9, kLeastRate)}};
      if (has_messages) takers["message_us"] = reader.number(cluster.message_s, 1e-6, 0);
      reader.group(node, name, takers, {"latency_us", "gb_per_s"});
    };
  };
  const std::optional<YamlNode> root = parse_yaml(yaml, source, reader.problems);
  if (root)
    reader.group(*root, "a cluster",
                 {{"name", reader.text(cluster.name)},
                  {"ranks_per_node", reader.count(cluster.ranks_per_node)},
                  {"inside", link("inside", cluster.inside, false)},
                  {"between", link("between", cluster.between, true)},
                  {"cores_per_node", reader.count(cluster.cores_per_node)},
                  {"file_system",
                   [&](const YamlNode& node) {
                     reader.group(node, "file_system",
                                  {{"gb_per_s", reader.number(cluster.file_bytes_per_s, 1e9, kLeastRate)}},
                                  {"gb_per_s"});
                   }}},
                 {"ranks_per_node", "inside", "between"});
  std::vector<Error> errors;
  for (const Problem& problem : reader.problems)
    errors.emplace_back(problem.code, problem.place.text() + ": " + problem.sentence);
  if (!errors.empty()) throw merge_errors(errors);
  if (cluster.name.empty()) cluster.name = path;
  return cluster;
}

std::string cluster_text(const Cluster& cluster) {
  const auto link = [](const Link& its) {
    return fixed(its.latency_s * 1e6, 1) + " us, " + fixed(its.bytes_per_s / 1e9, 1) + " GB/s";
  };
  std::string text = "inside " + link(cluster.inside);
  if (cluster.ranks_per_node < kMostRanks)
    text = count_of(cluster.ranks_per_node, "rank") + " a node; " + text + "; between " + link(cluster.between) +
           " a node";
  if (cluster.cores_per_node > 0) text += "; " + count_of(cluster.cores_per_node, "core") + " a node";
  if (cluster.file_bytes_per_s > 0) text += "; files " + fixed(cluster.file_bytes_per_s / 1e9, 1) + " GB/s";
  return text;
}

}  // namespace dtrain
