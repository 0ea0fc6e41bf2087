#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dtrain/base/text.hpp"
#include "dtrain/config/codec.hpp"

namespace dtrain {

using Json = nlohmann::json;

namespace {

bool whole_with_leading_zero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

std::optional<double> parse_real(const std::string& scalar) {
  std::string_view text = scalar;
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || whole_with_leading_zero(text) || text[0] == '-' || text[0] == '+') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return negative ? -value : value;
}

std::optional<int64_t> parse_whole(const std::string& scalar) {
  std::string_view text = scalar;
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || whole_with_leading_zero(digits) || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it, a double no longer stands for one integer
  const std::optional<double> real = parse_real(scalar);
  if (!real || *real != std::floor(*real) || std::abs(*real) > kExact) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::string or_word(const std::string& word) { return word.empty() ? "" : ", or " + word; }

std::string type_of(const WholeRange& range) {
  std::string type = "a whole number";
  if (range.max == std::numeric_limits<int64_t>::max()) {
    type += " >= " + std::to_string(range.min);
  } else {
    type += " from " + std::to_string(range.min) + " to " + std::to_string(range.max);
  }
  return type + or_word(range.word);
}

std::string type_of(const RealRange& range) {
  if (std::isinf(range.min) && std::isinf(range.max)) return "a number" + or_word(range.word);
  if (std::isinf(range.max))
    return std::string("a number ") + (range.min_open ? "> " : ">= ") + shortest(range.min) + or_word(range.word);
  return std::string("a number in ") + (range.min_open ? "(" : "[") + shortest(range.min) + ", " + shortest(range.max) +
         (range.max_open ? ")" : "]") + or_word(range.word);
}

// A value may also be a text with ${VAR} in it.
Json with_variables(const Json& schema) {
  return Json{{"anyOf", Json::array({schema, Json{{"type", "string"}, {"pattern", "\\$\\{"}}})}};
}

Json or_word(const Json& schema, const std::string& word) {
  if (word.empty()) return with_variables(schema);
  Json both = with_variables(schema);
  both["anyOf"].push_back(Json{{"const", word}});
  return both;
}

Json schema_of(const WholeRange& range) {
  Json json{{"type", "integer"}, {"minimum", range.min}};
  if (range.max != std::numeric_limits<int64_t>::max()) json["maximum"] = range.max;
  return json;
}

Json schema_of(const RealRange& range) {
  Json json{{"type", "number"}};
  if (!std::isinf(range.min)) json[range.min_open ? "exclusiveMinimum" : "minimum"] = range.min;
  if (!std::isinf(range.max)) json[range.max_open ? "exclusiveMaximum" : "maximum"] = range.max;
  return json;
}

std::optional<int64_t> whole_in(const YamlNode& node, const WholeRange& range) {
  if (!is_scalar(node)) return std::nullopt;
  if (!range.word.empty() && node.text == range.word) return range.word_value;
  const std::optional<int64_t> value = parse_whole(node.text);
  if (!value || *value < range.min || *value > range.max) return std::nullopt;
  return value;
}

std::optional<double> real_in(const YamlNode& node, const RealRange& range) {
  if (!is_scalar(node)) return std::nullopt;
  if (!range.word.empty() && node.text == range.word) return 0.0;
  const std::optional<double> value = parse_real(node.text);
  if (!value || *value < range.min || *value > range.max || (range.min_open && *value == range.min) ||
      (range.max_open && *value == range.max))
    return std::nullopt;
  return value;
}

std::string print_whole(int64_t value, const WholeRange& range) {
  return !range.word.empty() && value == range.word_value ? range.word : std::to_string(value);
}

std::string print_reals(const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (double value : values) parts.push_back(shortest(value));
  return "[" + join(parts, ", ") + "]";
}

// `count`: how many there must be; 0 = at least one.
std::optional<std::vector<double>> reals_in(const YamlNode& node, const RealRange& range, size_t count) {
  if (node.kind != YamlNode::Kind::list || node.items.empty()) return std::nullopt;
  if (count != 0 && node.items.size() != count) return std::nullopt;
  std::vector<double> values;
  for (const YamlNode& item : node.items) {
    const std::optional<double> value = real_in(item, range);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

// Names the wrong item of a list that is right otherwise.
std::string wants_items(const std::string& type, const std::string& item_type, const YamlNode& node,
                        const std::function<bool(const YamlNode&)>& fits) {
  if (node.kind == YamlNode::Kind::list)
    for (size_t i = 0; i < node.items.size(); ++i)
      if (!fits(node.items[i]))
        return "wants " + type + "; item " + std::to_string(i + 1) + " is not " + item_type + ": " +
               node.items[i].what();
  if (node.kind == YamlNode::Kind::list)
    return "wants " + type + ", not a list of " + std::to_string(node.items.size());
  return wants(type, node);
}

}  // namespace

Codec whole_codec(int64_t& field, const WholeRange& range) {
  return {type_of(range), or_word(schema_of(range), range.word).dump(),
          [&field, range](const YamlNode& node, const PathBases&) {
            const std::optional<int64_t> value = whole_in(node, range);
            if (value) field = *value;
            return value ? "" : wants(type_of(range), node);
          },
          [&field, range] { return print_whole(field, range); }};
}

Codec optional_whole_codec(std::optional<int64_t>& field, const WholeRange& range) {
  return {type_of(range), with_variables(schema_of(range)).dump(),
          [&field, range](const YamlNode& node, const PathBases&) {
            const std::optional<int64_t> value = whole_in(node, range);
            if (value) field = value;
            return value ? "" : wants(type_of(range), node);
          },
          [&field] { return field ? std::to_string(*field) : ""; }};
}

Codec odd_codec(int64_t& field, int64_t max) {
  Codec codec = whole_codec(field, {.min = 1, .max = max});
  codec.type = "an odd number from 1 to " + std::to_string(max - 1 + max % 2);
  std::vector<int64_t> odd;
  for (int64_t number = 1; number <= max; number += 2) odd.push_back(number);
  codec.json_schema = with_variables(Json{{"enum", odd}}).dump();
  codec.read = [&field, max, type = codec.type](const YamlNode& node, const PathBases&) {
    const std::optional<int64_t> value = whole_in(node, {.min = 1, .max = max});
    if (!value || *value % 2 == 0) return wants(type, node);
    field = *value;
    return std::string();
  };
  return codec;
}

Codec seed_codec(uint64_t& field) {
  const std::string type = "a whole number from 0 to 18446744073709551615";
  return {type, with_variables(Json{{"type", "integer"}, {"minimum", 0}}).dump(),
          [&field, type](const YamlNode& node, const PathBases&) -> std::string {
            if (const std::optional<int64_t> value = whole_in(node, {})) {
              field = static_cast<uint64_t>(*value);
              return "";
            }
            uint64_t value = 0;
            const char* const last = node.text.data() + node.text.size();
            const auto [end, error] = std::from_chars(node.text.data(), last, value);
            if (!is_scalar(node) || error != std::errc() || end != last || whole_with_leading_zero(node.text))
              return wants(type, node);
            field = value;
            return "";
          },
          [&field] { return std::to_string(field); }};
}

// "0,001", 20 and "20%" instead of a share.
static std::string number_meant(const YamlNode& node, const RealRange& range) {
  if (!is_scalar(node)) return "";
  if (const size_t comma = node.text.find(','); comma != std::string::npos) {
    std::string point = node.text;
    point[comma] = '.';
    return parse_real(point) ? " (did you mean '" + point + "'?)" : "";
  }
  if (range.min != 0 || range.max != 1) return "";
  const std::string text = node.text.ends_with('%') ? node.text.substr(0, node.text.size() - 1) : node.text;
  const std::optional<double> percent = parse_real(text);
  return percent && *percent > 1 && *percent < 100
             ? " (" + shortest(*percent) + " % is " + shortest(*percent / 100) + ")"
             : "";
}

Codec real_codec(double& field, const RealRange& range) {
  return {type_of(range), or_word(schema_of(range), range.word).dump(),
          [&field, range](const YamlNode& node, const PathBases&) {
            const std::optional<double> value = real_in(node, range);
            if (value) field = *value;
            return value ? "" : wants(type_of(range), node) + number_meant(node, range);
          },
          [&field, range] { return !range.word.empty() && field == 0 ? range.word : shortest(field); }};
}

Codec reals_codec(std::vector<double>& field, const RealRange& range) {
  const std::string item = type_of(range);
  const std::string type = "a list, each item " + item;
  const Json json{{"type", "array"}, {"items", with_variables(schema_of(range))}, {"minItems", 1}};
  return {type, json.dump(),
          [&field, range, type, item](const YamlNode& node, const PathBases&) {
            auto values = reals_in(node, range, 0);
            if (values) field = std::move(*values);
            return values ? "" : wants_items(type, item, node, [&](const YamlNode& n) {
              return real_in(n, range).has_value();
            });
          },
          [&field] { return field.empty() ? "" : print_reals(field); }};
}

Codec size_codec(int64_t& height, int64_t& width, const WholeRange& range) {
  const std::string type = "[height, width], each " + type_of(range);
  const Json json{{"type", "array"}, {"items", with_variables(schema_of(range))}, {"minItems", 2}, {"maxItems", 2}};
  return {type, json.dump(),
          [&height, &width, range, type](const YamlNode& node, const PathBases&) {
            const auto fits = [&](const YamlNode& n) { return whole_in(n, range).has_value(); };
            const bool two = node.kind == YamlNode::Kind::list && node.items.size() == 2;
            if (!two || !fits(node.items[0]) || !fits(node.items[1]))
              return wants_items(type, type_of(range), node, fits);
            height = *whole_in(node.items[0], range);
            width = *whole_in(node.items[1], range);
            return std::string();
          },
          [&height, &width] { return "[" + std::to_string(height) + ", " + std::to_string(width) + "]"; }};
}

Codec two_reals_codec(double& first, double& second, const RealRange& range) {
  const std::string type = "a list of two, each " + type_of(range);
  const Json json{{"type", "array"}, {"items", with_variables(schema_of(range))}, {"minItems", 2}, {"maxItems", 2}};
  return {type, json.dump(),
          [&first, &second, range, type](const YamlNode& node, const PathBases&) {
            const auto values = reals_in(node, range, 2);
            if (!values)
              return wants_items(type, type_of(range), node,
                                 [&](const YamlNode& n) { return real_in(n, range).has_value(); });
            first = (*values)[0];
            second = (*values)[1];
            return std::string();
          },
          [&first, &second] {
            return print_reals({first, second});
          }};
}

Codec range_codec(double& low, double& high, const RealRange& range) {
  RealRange of_each = range;
  of_each.word = "";
  Codec codec = two_reals_codec(low, high, of_each);
  codec.type = "[low, high], two numbers" + (std::isinf(range.min) ? "" : ", each " + type_of(of_each)) +
               ", the first less than the second" + or_word(range.word);
  if (!range.word.empty()) codec.json_schema = or_word(Json::parse(codec.json_schema), range.word).dump();
  codec.read = [&low, &high, word = range.word, read = codec.read](const YamlNode& node,
                                                                   const PathBases& bases) -> std::string {
    if (!word.empty() && is_scalar(node) && node.text == word) {
      low = high = 0;
      return "";
    }
    const std::string wrong = read(node, bases);
    return wrong.empty() && low >= high ? "wants [low, high] with low less than high" : wrong;
  };
  codec.print = [&low, &high, word = range.word, print = codec.print] { return low < high ? print() : word; };
  return codec;
}

Codec output_weights_codec(OutputWeights& weights) {
  using From = OutputWeights::From;
  const RealRange above_zero{.min_open = true};
  const std::string type = "none, balanced, or a list of numbers > 0";
  const Json list{{"type", "array"}, {"items", with_variables(schema_of(above_zero))}, {"minItems", 1}};
  const Json json{{"anyOf", Json::array({Json{{"enum", {"none", "balanced"}}}, list,
                                         Json{{"type", "string"}, {"pattern", "\\$\\{"}}})}};
  return {type, json.dump(),
          [&weights, above_zero, type](const YamlNode& node, const PathBases&) -> std::string {
            const bool none = is_scalar(node) && node.text == "none";
            const bool balanced = is_scalar(node) && node.text == "balanced";
            const auto values = reals_in(node, above_zero, 0);
            if (!none && !balanced && !values)
              return wants_items(type, "a number > 0", node,
                                 [&](const YamlNode& n) { return real_in(n, above_zero).has_value(); });
            weights.from = none ? From::none : balanced ? From::balanced : From::list;
            weights.list = values.value_or(std::vector<double>{});
            return "";
          },
          [&weights] {
            if (weights.from == From::list) return print_reals(weights.list);
            return std::string(weights.from == From::none ? "none" : "balanced");
          }};
}

Codec mask_values_codec(std::map<int64_t, int64_t>& field) {
  const std::string type = "a group {pixel value: class}, values from 0 to 65535, classes from 1 to 255";
  const Json json{{"type", "object"},
                  {"patternProperties", {{"^[0-9]+$", Json{{"type", "integer"}, {"minimum", 1}, {"maximum", 255}}}}},
                  {"additionalProperties", false},
                  {"minProperties", 1}};
  return {type, json.dump(),
          [&field, type](const YamlNode& node, const PathBases&) -> std::string {
            if (node.kind != YamlNode::Kind::map || node.entries.empty()) return wants(type, node);
            std::map<int64_t, int64_t> values;
            for (const YamlNode::Entry& entry : node.entries) {
              const std::optional<int64_t> pixel = parse_whole(entry.key);
              const std::optional<int64_t> label = whole_in(entry.value, {.min = 1, .max = 255});
              if (!pixel || *pixel < 0 || *pixel > 65535 || !label)
                return "wants " + type + "; '" + entry.key + ": …' is none" +
                       (entry.key.find(':') == std::string::npos ? "" : ": YAML wants a space after the colon");
              if (!values.emplace(*pixel, *label).second)
                return "names the pixel value " + std::to_string(*pixel) + " twice";
            }
            field = std::move(values);
            return "";
          },
          [&field] {
            std::vector<std::string> parts;
            for (const auto& [pixel, label] : field)
              parts.push_back(std::to_string(pixel) + ": " + std::to_string(label));
            return parts.empty() ? "" : "{" + join(parts, ", ") + "}";
          }};
}

Codec fold_codec(int64_t& fold, int64_t& folds) {
  const std::string type = "a fold, such as '2 of 5', or none";
  const Json json{{"type", "string"}, {"pattern", "^([0-9]+ of [0-9]+|none)$|\\$\\{"}};
  return {type, json.dump(),
          [&fold, &folds, type](const YamlNode& node, const PathBases&) -> std::string {
            const bool scalar = node.kind == YamlNode::Kind::scalar;
            if (scalar && node.text == "none") {
              fold = folds = 0;
              return "";
            }
            const size_t of = scalar ? node.text.find(" of ") : std::string::npos;
            if (of == std::string::npos) return "wants " + type + ", not " + node.what();
            const std::optional<int64_t> own = parse_whole(std::string(trimmed(node.text.substr(0, of))));
            const std::optional<int64_t> all = parse_whole(std::string(trimmed(node.text.substr(of + 4))));
            if (!own || !all) return "wants " + type + ", not " + node.what();
            if (*all < 2 || *all > 1000 || *own < 1 || *own > *all)
              return "wants 1 of N to N of N, N from 2 to 1000, not " + node.what();
            fold = *own;
            folds = *all;
            return "";
          },
          [&fold, &folds] { return folds == 0 ? "none" : std::to_string(fold) + " of " + std::to_string(folds); }};
}

}  // namespace dtrain
