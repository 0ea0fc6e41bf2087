#include "dtrain/io/records/field_values.hpp"

#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {

using Json = nlohmann::json;

static void add_value(const Json& value, const std::string& field, const std::string& name, FieldValues& out) {
  const bool number = value.is_number() || value.is_boolean() || value.is_null();
  if (!number && !value.is_string())
    throw DataError(name + ": the field '" + field + "' holds neither texts nor numbers");
  if (!out.texts.empty() && out.numeric != number)
    throw DataError(name + ": the field '" + field + "' mixes texts and numbers");
  out.numeric = number;
  if (!number) return out.texts.push_back(value.get<std::string>());
  if (value.is_null()) {
    out.numbers.push_back(std::numeric_limits<double>::quiet_NaN());
  } else {
    out.numbers.push_back(value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>());
  }
  if (value.is_number_unsigned()) return out.texts.push_back(std::to_string(value.get<uint64_t>()));
  out.texts.push_back(value.is_number_integer() ? std::to_string(value.get<int64_t>()) : shortest(out.numbers.back()));
}

FieldValues json_field(std::string_view text, const std::string& field, const std::string& name) {
  const Json json = parse_json(text, name);
  if (!json.is_object()) throw DataError(name + " is not a JSON object");
  const auto found = json.find(field);
  if (found == json.end()) {
    std::vector<std::string> fields;
    constexpr size_t kShown = 80;
    for (const auto& [key, value] : json.items())
      fields.push_back(key.size() <= kShown ? key : key.substr(0, kShown) + "…");
    throw DataError(with_list(name + " has no field '" + field + "'; it has:", fields));
  }
  FieldValues values;
  if (!found->is_array()) {
    add_value(*found, field, name, values);
  } else {
    for (const Json& value : *found) add_value(value, field, name, values);
  }
  return values;
}

}  // namespace dtrain
