#include "dtrain/checkpoint/state_json.hpp"

#include <cmath>
#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"

namespace dtrain {

using nlohmann::json;

namespace {

constexpr size_t kMostTexts = 100'000;

/// The value under "name" or "group.name" of a JSON object; created if absent.
json& at(json& object, const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? object[name] : object[name.substr(0, dot)][name.substr(dot + 1)];
}
const json& at(const json& object, const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? object.at(name) : object.at(name.substr(0, dot)).at(name.substr(dot + 1));
}

}  // namespace

void StateWriter::count(const char* name, int64_t value, int64_t, int64_t) { at(object, name) = value; }
void StateWriter::sum(const char* name, uint64_t value) { at(object, name) = value; }
void StateWriter::real(const char* name, double value) { at(object, name) = value; }
void StateWriter::real_or_none(const char* name, double value) {
  at(object, name) = std::isnan(value) ? json(nullptr) : json(value);
}
void StateWriter::seconds(const char* name, double value) { at(object, name) = value; }
void StateWriter::hash(const char* name, const std::string& text) { at(object, name) = text; }
void StateWriter::digits(const char* name, const std::string& text) { at(object, name) = text; }
void StateWriter::list(const char* name, const std::vector<std::string>& texts) { at(object, name) = texts; }
void StateWriter::table(const char* name, const std::map<std::string, std::string>& texts) { at(object, name) = texts; }

const json& StateReader::named(const std::string& name) {
  visited_.insert(name);
  return at(object_, name);
}

bool StateReader::has(const char* name) {
  const std::string text = name;
  const size_t dot = text.find('.');
  if (dot == std::string::npos) return object_.contains(text);
  const auto group = object_.find(text.substr(0, dot));
  return group != object_.end() && group->contains(text.substr(dot + 1));
}

void StateReader::count(const char* name, int64_t& value, int64_t least, int64_t most) {
  const json& found = named(name);
  const bool fits = found.is_number_integer() && (!found.is_number_unsigned() || found.get<uint64_t>() <= INT64_MAX);
  if (fits) value = found.get<int64_t>();
  if (!fits || value < least || value > most)
    refuse(name, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

void StateReader::sum(const char* name, uint64_t& value) {
  const json& found = named(name);
  if (!found.is_number_unsigned()) refuse(name, "must be a whole number of 64 bits");
  value = found.get<uint64_t>();
}

void StateReader::real(const char* name, double& value) {
  const json& found = named(name);
  if (found.is_number()) value = found.get<double>();
  if (!found.is_number() || !std::isfinite(value)) refuse(name, "must be a finite number");
}

void StateReader::real_or_none(const char* name, double& value) {
  value = std::numeric_limits<double>::quiet_NaN();
  if (!named(name).is_null()) real(name, value);
}

void StateReader::seconds(const char* name, double& value) {
  // Some are differences between the times of two clocks, and rounding can put them slightly below 0.
  constexpr double kLeast = -1e-3;
  constexpr double kMost = 1e12;
  real(name, value);
  if (value < kLeast || value > kMost) refuse(name, "must be seconds from 0 to 1e12");
}

void StateReader::hash(const char* name, std::string& text) {
  text = text_of(name, named(name));
  if (!text.empty() && !is_sha256(text)) refuse(name, "must be a SHA-256");
}

void StateReader::digits(const char* name, std::string& text) {
  text = text_of(name, named(name));
  require_training_digits(text, file_);
}

void StateReader::list(const char* name, std::vector<std::string>& texts) {
  const json& found = named(name);
  if (!found.is_array() || found.size() > kMostTexts) refuse(name, "must be a list of texts");
  texts.clear();
  for (const json& text : found) {
    texts.push_back(text_of(name, text));
    if (!is_printable(texts.back())) refuse(name, "must hold no characters that control a terminal");
  }
}

void StateReader::table(const char* name, std::map<std::string, std::string>& texts) {
  const json& found = named(name);
  if (!found.is_object() || found.size() > kMostTexts) refuse(name, "must be an object of texts");
  texts.clear();
  for (const auto& [key, text] : found.items()) texts[key] = text_of(name, text);
}

void StateReader::require_no_others() const {
  const auto require_known = [&](const std::string& name) {
    if (!visited_.contains(name))
      throw ConfigError(file_ + " was saved by a newer dtrain than this one: its state has '" + name +
                        "', which this one does not know; resume with the newer one");
  };
  const auto is_group = [&](const std::string& name) {
    const auto first = visited_.lower_bound(name + ".");
    return first != visited_.end() && first->starts_with(name + ".");
  };
  for (const auto& [name, value] : object_.items()) {
    if (!is_group(name)) {
      require_known(name);
      continue;
    }
    for (const auto& [part, held] : value.items()) require_known(name + "." + part);
  }
}

void StateReader::refuse(const std::string& name, const std::string& wanted) const {
  throw DataError(file_ + ": in its state '" + name + "' " + wanted +
                  "; the file was changed or not written by this version of dtrain");
}

std::string StateReader::text_of(const char* name, const json& text) const {
  if (!text.is_string()) refuse(name, "must be text");
  return text.get<std::string>();
}

}  // namespace dtrain
