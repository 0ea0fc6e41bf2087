#include "dtrain/config/codec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/habits.hpp"

namespace dtrain {

using Json = nlohmann::json;

bool is_scalar(const YamlNode& node) { return node.kind == YamlNode::Kind::scalar; }

std::string wants(const std::string& type, const YamlNode& node) { return "wants " + type + ", not " + node.what(); }

namespace {

// Names of runs, classes and columns reach terminals and tables. A tab may separate labels.
std::string unprintable(const YamlNode& node) {
  std::string text = node.text;
  std::replace(text.begin(), text.end(), '\t', ' ');
  if (is_printable(text)) return "";
  return "wants a text without characters that control a terminal or the direction of writing, not " + node.what();
}

// Plain if it cannot be mistaken for anything else; otherwise quoted.
bool plain_is_safe(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || !(letter(text[0]) || text[0] == '/' || text.starts_with("./") || text.starts_with("../")))
    return false;
  for (char c : text)
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '/' && c != '.' && c != '-') return false;
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
    if (lower_case(text) == word) return false;
  return true;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c < 0x20 || c == 0x7F) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02X", static_cast<unsigned>(c));
      out += buffer;
    } else if (c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      out += "$$";
    } else if (const size_t length = utf8_length(std::string_view(text).substr(i)); length > 1) {
      out += printable(std::string_view(text).substr(i, length));  // YAML has the same escapes
      i += length - 1;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string length_type(const LengthRange& range) {
  std::string type = "a length in epochs or steps, such as '5 epochs' or '400 steps'";
  if (range.whole) type = "a whole length >= 1 in epochs or steps, such as '1 epoch' or '400 steps'";
  if (range.time) type += ", or a time such as '30 minutes'";
  if (range.none) type += ", or none";
  return type;
}

std::optional<Duration> length_in(const YamlNode& node, const LengthRange& range) {
  if (!is_scalar(node)) return std::nullopt;
  if (range.none && node.text == "none") return Duration{0, Duration::Unit::epochs};
  const std::optional<Duration> length = parse_duration(node.text);
  if (!length) return std::nullopt;
  if (length->unit == Duration::Unit::seconds) return range.time && length->amount > 0 ? length : std::nullopt;
  if (range.whole && (length->amount < 1 || length->amount != std::floor(length->amount) || length->amount > 1e15))
    return std::nullopt;
  if (range.above_zero && length->amount <= 0) return std::nullopt;
  return length;
}

constexpr const char* kTimePattern = "^([0-9.]+ *(s|m|h|min|seconds?|minutes?|hours?) *)+$|\\$\\{";

Json length_schema() { return Json{{"type", "string"}, {"pattern", "^[0-9.]+ *(epochs?|steps?)$|\\$\\{"}}; }

Json time_schema() { return Json{{"type", "string"}, {"pattern", kTimePattern}}; }

// Never with an exponent, which parse_duration() does not read.
std::string length_text(const Duration& length) {
  std::array<char, 400> digits{};
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), length.amount, std::chars_format::fixed);
  const std::string amount(digits.data(), error == std::errc() ? end : digits.data());
  if (length.unit == Duration::Unit::seconds) return amount + " s";
  return amount + (length.unit == Duration::Unit::epochs ? " epoch" : " step") + (length.amount == 1 ? "" : "s");
}

}  // namespace

std::string yaml_text(const std::string& text) { return plain_is_safe(text) ? text : quoted(text); }

Codec length_codec(Duration& field, const LengthRange& range) {
  Json json = length_schema();
  if (range.time) json = Json{{"anyOf", Json::array({json, time_schema()})}};
  if (range.none) json = Json{{"anyOf", Json::array({json, Json{{"const", "none"}}})}};
  return {length_type(range), json.dump(),
          [&field, range](const YamlNode& node, const PathBases&) {
            const std::optional<Duration> length = length_in(node, range);
            if (length) field = *length;
            return length ? "" : wants(length_type(range), node);
          },
          [&field, range] { return range.none && field.amount == 0 ? "none" : length_text(field); }};
}

Codec lengths_codec(std::vector<Duration>& field) {
  const std::string type = "a list of lengths > 0 in epochs or steps, such as [30 epochs, 60 epochs]";
  const Json json{{"type", "array"}, {"items", length_schema()}, {"minItems", 1}};
  return {type, json.dump(),
          [&field, type](const YamlNode& node, const PathBases&) {
            if (node.kind != YamlNode::Kind::list || node.items.empty()) return wants(type, node);
            std::vector<Duration> lengths;
            for (const YamlNode& item : node.items) {
              const std::optional<Duration> length = length_in(item, {.above_zero = true});
              if (!length) return "wants " + type + "; " + item.what() + " is none";
              lengths.push_back(*length);
            }
            field = std::move(lengths);
            return std::string();
          },
          [&field] {
            std::vector<std::string> parts;
            for (const Duration& length : field) parts.push_back(length_text(length));
            return parts.empty() ? "" : "[" + join(parts, ", ") + "]";
          }};
}

Codec seconds_codec(double& field, bool none) {
  const std::string type =
      std::string("a time > 0 with its unit, such as '30 s' or '10 minutes'") + (none ? ", or none" : "");
  Json json = time_schema();
  if (none) json = Json{{"anyOf", Json::array({json, Json{{"const", "none"}}})}};
  return {type, json.dump(),
          [&field, type, none](const YamlNode& node, const PathBases&) {
            if (none && is_scalar(node) && node.text == "none") {
              field = std::numeric_limits<double>::infinity();
              return std::string();
            }
            const std::optional<Duration> time = is_scalar(node) ? parse_duration(node.text) : std::nullopt;
            if (!time || time->unit != Duration::Unit::seconds || time->amount <= 0) return wants(type, node);
            field = time->amount;
            return std::string();
          },
          [&field] {
            return std::isinf(field) ? "none" : length_text({field, Duration::Unit::seconds});
          }};
}

Codec flag_codec(bool& field) {
  return {"true or false", R"({"type":"boolean"})",
          [&field](const YamlNode& node, const PathBases&) -> std::string {
            const std::string word = is_scalar(node) ? node.text : "";
            if (word == "true" || word == "True" || word == "TRUE") {
              field = true;
            } else if (word == "false" || word == "False" || word == "FALSE") {
              field = false;
            } else {
              return wants("true or false", node);
            }
            return "";
          },
          [&field] { return std::string(field ? "true" : "false"); }};
}

Codec text_codec(std::string& field) {
  return {"a text", R"({"type":["string","number","boolean"]})",
          [&field](const YamlNode& node, const PathBases&) {
            if (!is_scalar(node) || node.text.empty()) return wants("a text", node);
            if (const std::string bad = unprintable(node); !bad.empty()) return bad;
            field = node.text;
            return std::string();
          },
          [&field] { return field.empty() ? "" : yaml_text(field); }};
}

Codec texts_codec(std::vector<std::string>& field, const std::string& word) {
  const std::string type = word.empty() ? "a list of texts" : word + ", or a list of texts";
  Json json{{"type", "array"},
            {"items", {{"type", {"string", "number", "boolean"}}}},
            {"minItems", 1},
            {"uniqueItems", true}};
  if (!word.empty()) json = Json{{"anyOf", Json::array({json, Json{{"const", word}}})}};
  return {type, json.dump(),
          [&field, type, word](const YamlNode& node, const PathBases&) -> std::string {
            if (!word.empty() && is_scalar(node) && node.text == word) {
              field.clear();
              return "";
            }
            if (node.kind != YamlNode::Kind::list || node.items.empty()) return wants(type, node);
            std::vector<std::string> texts;
            for (const YamlNode& item : node.items) {
              if (!is_scalar(item) || item.text.empty()) return "wants " + type + "; one item is " + item.what();
              if (const std::string bad = unprintable(item); !bad.empty()) return bad;
              for (const std::string& earlier : texts)
                if (earlier == item.text) return "names " + item.what() + " twice";
              texts.push_back(item.text);
            }
            field = std::move(texts);
            return "";
          },
          [&field, word] {
            std::vector<std::string> parts;
            for (const std::string& text : field) parts.push_back(yaml_text(text));
            return parts.empty() ? word : "[" + join(parts, ", ") + "]";
          }};
}

Codec words_codec(const std::vector<std::string>& words, std::function<int()> get, std::function<void(int)> set) {
  const Json json{{"anyOf", Json::array({Json{{"enum", words}}, Json{{"type", "string"}, {"pattern", "\\$\\{"}}})}};
  return {join_last(words, "or"), json.dump(),
          [words, set = std::move(set)](const YamlNode& node, const PathBases&) -> std::string {
            for (size_t i = 0; i < words.size(); ++i)
              if (is_scalar(node) && node.text == words[i]) {
                set(static_cast<int>(i));
                return "";
              }
            std::string near = is_scalar(node) ? value_here(node.text, words) : "";
            if (near.empty() && is_scalar(node)) near = nearest_word(lower_case(node.text), words);
            return wants(join_last(words, "or"), node) + (near.empty() ? "" : " (did you mean '" + near + "'?)");
          },
          [words, get = std::move(get)] {
            const int place = get();
            return place < 0 ? "" : words.at(static_cast<size_t>(place));
          }};
}

Codec word_map_codec(const std::vector<std::string>& keys, const std::vector<std::string>& words,
                     std::function<std::map<std::string, int>()> get,
                     std::function<void(const std::map<std::string, int>&)> set) {
  const std::string type = "a group {name: word}, each word " + join_last(words, "or");
  Json json{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  for (const std::string& key : keys) json["properties"][key] = Json{{"enum", words}};
  return {type, json.dump(),
          [keys, words, type, set = std::move(set)](const YamlNode& node, const PathBases&) -> std::string {
            if (node.kind != YamlNode::Kind::map) return wants(type, node);
            std::map<std::string, int> values;
            for (const YamlNode::Entry& entry : node.entries) {
              if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) {
                const std::string near = nearest_word(entry.key, keys);
                return "names '" + entry.key + "'" +
                       (near.empty() ? "; there are " + join(keys, ", ") : " (did you mean '" + near + "'?)");
              }
              const auto word = std::find(words.begin(), words.end(), is_scalar(entry.value) ? entry.value.text : "");
              if (word == words.end())
                return "wants " + join_last(words, "or") + " for '" + entry.key + "', not " + entry.value.what();
              values[entry.key] = static_cast<int>(word - words.begin());
            }
            set(values);
            return "";
          },
          [words, get = std::move(get)] {
            std::vector<std::string> parts;
            for (const auto& [key, word] : get())
              parts.push_back(yaml_text(key) + ": " + words.at(static_cast<size_t>(word)));
            return "{" + join(parts, ", ") + "}";
          }};
}

}  // namespace dtrain
