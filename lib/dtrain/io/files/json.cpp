#include "dtrain/io/files/json.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

using nlohmann::json;

/// The most brackets that are open at once. For text that is not JSON, any number will do.
static int levels_of(std::string_view text) {
  int open = 0;
  int most = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++open);
    } else if (c == ']' || c == '}') {
      --open;
    }
  }
  return most;
}

json parse_json(std::string_view text, const std::string& name) {
  if (levels_of(text) > kMostJsonLevels)
    throw DataError(
        fmt::format("{} nests lists and objects deeper than {} levels, the most that is read", name, kMostJsonLevels));
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    throw DataError(fmt::format("{} is not JSON (byte {}); correct it there, or use another copy", name, error.byte));
  } catch (const json::exception&) {
    throw DataError(name + " holds a number that is too large");
  }
}

json try_parse_json(std::string_view text) {
  if (levels_of(text) > kMostJsonLevels) return json(json::value_t::discarded);
  return json::parse(text, nullptr, false);
}

std::string kind_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return "true or false";
    case json::value_t::string:
      return "a text";
    case json::value_t::array:
      return "a list";
    case json::value_t::object:
      return "an object";
    case json::value_t::number_float:
      return "a number that is not whole";
    default:
      return "a number";
  }
}

int64_t whole_number(const json& value, const std::string& key, int64_t least, int64_t most, const std::string& name) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  const bool missing = found == value.end();
  if (!missing && found->is_number_integer()) {
    const bool fits = !found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    if (const auto number = found->get<int64_t>(); fits && number >= least && number <= most) return number;
  }
  throw DataError(name + (missing ? " has no '" + key + "'" : ": '" + key + "' is " + kind_of(*found)) +
                  ", where a whole number from " + with_commas(least) + " to " + with_commas(most) + " is expected");
}

}  // namespace dtrain
