#include <algorithm>
#include <nlohmann/json.hpp>

#include "dtrain/base/text.hpp"
#include "dtrain/config/codec.hpp"

namespace dtrain {

using Json = nlohmann::json;

namespace {

const std::vector<std::string> kKeys = {"match", "rate", "weight_decay", "freeze"};

// Reads one key of a group; "" or what is wrong.
std::string read_entry(ParameterGroup& group, const YamlNode::Entry& entry, const PathBases& bases) {
  const auto told = [&](const std::string& wrong) { return wrong.empty() ? "" : entry.key + " " + wrong; };
  if (entry.key == "match") return told(text_codec(group.match).read(entry.value, bases));
  if (entry.key == "rate") return told(real_codec(group.rate, {.min_open = true}).read(entry.value, bases));
  if (entry.key == "freeze") return told(flag_codec(group.freeze).read(entry.value, bases));
  if (entry.key == "weight_decay") {
    double value = 0;
    const std::string wrong = real_codec(value, {}).read(entry.value, bases);
    if (wrong.empty()) group.weight_decay = value;
    return told(wrong);
  }
  const bool rate = entry.key == "lr" || entry.key == "learning_rate";
  const std::string near = rate ? "rate" : nearest_word(entry.key, kKeys);
  return "'" + entry.key + "' is not a key of a group, which has " + join_last(kKeys, "and") +
         (near.empty() ? "" : " (did you mean '" + near + "'?)") +
         (rate ? "; rate is a factor of optimizer.learning_rate" : "");
}

std::string text_of(const ParameterGroup& group) {
  std::string text = "{match: " + yaml_text(group.match);
  if (group.rate != 1) text += ", rate: " + shortest(group.rate);
  if (group.weight_decay) text += ", weight_decay: " + shortest(*group.weight_decay);
  if (group.freeze) text += ", freeze: true";
  return text + "}";
}

}  // namespace

Codec groups_codec(std::vector<ParameterGroup>& field) {
  const std::string type =
      "none or a list of groups such as [{match: \"features.*\", rate: 0.1, weight_decay: 0}, {match: \"stem.*\", "
      "freeze: true}]";
  const Json above{{"type", "number"}, {"exclusiveMinimum", 0}}, from_zero{{"type", "number"}, {"minimum", 0}};
  const Json entries{{"type", "object"},
                     {"properties",
                      {{"match", Json{{"type", "string"}}},
                       {"rate", above},
                       {"weight_decay", from_zero},
                       {"freeze", Json{{"type", "boolean"}}}}},
                     {"required", {"match"}},
                     {"additionalProperties", false}};
  const Json json{{"anyOf", {Json{{"const", "none"}}, Json{{"type", "array"}, {"items", entries}}}}};
  return {type, json.dump(),
          [&field, type](const YamlNode& node, const PathBases& bases) -> std::string {
            std::vector<ParameterGroup> groups;
            if (!(is_scalar(node) && node.text == "none")) {
              if (node.kind != YamlNode::Kind::list) return wants(type, node);
              for (const YamlNode& item : node.items) {
                const std::string which = "group " + std::to_string(groups.size() + 1) + ": ";
                if (item.kind != YamlNode::Kind::map) return which + wants("a group such as {match: \"fc.*\"}", item);
                ParameterGroup& group = groups.emplace_back();
                for (const YamlNode::Entry& entry : item.entries)
                  if (const std::string wrong = read_entry(group, entry, bases); !wrong.empty()) return which + wrong;
                if (group.match.empty()) return which + "match is missing: a pattern of parameter names";
              }
            }
            field = std::move(groups);
            return "";
          },
          [&field] {
            std::vector<std::string> parts;
            for (const ParameterGroup& group : field) parts.push_back(text_of(group));
            return parts.empty() ? "none" : "[" + join(parts, ", ") + "]";
          }};
}

}  // namespace dtrain
