#include "dtrain/study/study_file.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {
namespace {

constexpr const char* kHead =
    "# What dtrain sweep was asked for. A later start goes on here only if it asks for the same.\n";
constexpr const char* kFormat = "dtrain-study-1";
constexpr const char* kConfiguration = "configuration";
constexpr const char* kAdvise = "advise";
constexpr const char* kTitle = "title";
constexpr const char* kExpected = "expected";

using OrderedJson = nlohmann::ordered_json;

std::string dump(const OrderedJson& value) { return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

// In the order in which differences are named.
OrderedJson asked_json(const StudyAsked& asked) {
  const SweepPlan& plan = asked.plan;
  OrderedJson json;
  json["study"] = kFormat;
  json["ranks"] = plan.ranks;
  json["over"] = OrderedJson::object();
  for (const SweepAxis& axis : plan.over) json["over"][axis.key] = axis.values;
  for (const SweepAxis& axis : plan.over)
    if (axis.beside) json["beside"].push_back(axis.key);
  json["zip"] = plan.zip;
  json["repeat"] = plan.repeat;
  json["folds"] = plan.folds;
  if (asked.advice)
    json[kAdvise] = {{"epochs", asked.advice->epochs},
                     {"of_epochs", asked.advice->of_epochs},
                     {"present", {asked.advice->present.scale, asked.advice->present.warmup}},
                     {"seeds", asked.advice->seeds}};
  json[kConfiguration] = OrderedJson::object();
  for (const auto& [key, value] : asked.configuration) json[kConfiguration][key] = value;
  return json;
}

[[noreturn]] void refuse(const std::string& name) {
  throw DataError(name + " was not written by dtrain sweep; name another --output");
}

// The file as the object from which it was made.
OrderedJson read_back(const std::string& text, const std::string& name) {
  OrderedJson json;
  for (const std::string& line : split_text(text, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    const bool inner = line.starts_with("  ");
    const size_t colon = line.find(inner ? "\": " : ":");
    if (colon == std::string::npos) refuse(name);
    const std::string key = inner ? line.substr(3, colon - 3) : line.substr(0, colon);
    if (!inner && key == kConfiguration) {
      json[key] = OrderedJson::object();
      continue;
    }
    const std::string value = line.substr(colon + (inner ? 3 : 2));
    if (try_parse_json(value).is_discarded()) refuse(name);
    (inner ? json[kConfiguration][key] : json[key]) = OrderedJson::parse(value);  // in the order of the axes
  }
  if (!json.is_object() || !json.contains("study") || json["study"] != kFormat || !json[kConfiguration].is_object())
    refuse(name);
  return json;
}

std::string changed(const std::string& key, const OrderedJson& then, const OrderedJson& now) {
  const auto text = [](const OrderedJson& value) {
    return value.is_null() ? std::string("not set") : value.is_string() ? value.get<std::string>() : dump(value);
  };
  return key + " was " + text(then) + " and is now " + text(now);
}

OrderedJson at(const OrderedJson& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? OrderedJson() : *found;
}

}  // namespace

std::string study_yaml(const StudyAsked& asked) {
  std::string text = kHead;
  OrderedJson json = asked_json(asked);
  const StudyWords& words = asked.words;
  if (!words.title.empty()) json[kTitle] = words.title;
  if (!words.expected.empty()) json[kExpected] = {{"source", words.source}, {"figures", words.expected}};
  for (const auto& [key, value] : json.items()) {
    if (key != kConfiguration) {
      text += key + ": " + dump(value) + "\n";
      continue;
    }
    text += key + ":\n";
    for (const auto& [inner, its] : value.items()) text += "  " + dump(inner) + ": " + dump(its) + "\n";
  }
  return text;
}

std::optional<AdviceAsked> advice_of_study(const std::string& text, const std::string& name) {
  if (text.find(std::string("\n") + kAdvise + ": ") == std::string::npos) return std::nullopt;
  const OrderedJson advice = at(read_back(text, name), kAdvise);
  try {
    const OrderedJson& present = advice.at("present");
    return AdviceAsked{.present = {present.at(0).get<std::string>(), present.at(1).get<std::string>()},
                       .epochs = advice.at("epochs").get<int64_t>(),
                       .of_epochs = advice.at("of_epochs").get<int64_t>(),
                       .seeds = advice.at("seeds").get<int64_t>()};
  } catch (const OrderedJson::exception&) {
    refuse(name);
  }
}

StudyWords words_of_study(const std::string& text, const std::string& name) {
  const OrderedJson json = read_back(text, name);
  StudyWords words;
  try {
    if (json.contains(kTitle)) words.title = json[kTitle].get<std::string>();
    if (!json.contains(kExpected)) return words;
    words.source = json[kExpected].at("source").get<std::string>();
    words.expected = json[kExpected].at("figures").get<std::vector<std::string>>();
  } catch (const OrderedJson::exception&) {
    refuse(name);
  }
  return words;
}

std::string study_difference(const std::string& text, const std::string& name, const StudyAsked& asked) {
  const OrderedJson then = read_back(text, name);
  const OrderedJson now = asked_json(asked);
  for (const auto& [key, value] : now.items())
    if (key != kConfiguration && at(then, key) != value) return changed("--" + key, at(then, key), value);
  const OrderedJson& keys_then = then[kConfiguration];
  const OrderedJson& keys_now = now[kConfiguration];
  for (const auto& [key, value] : keys_now.items())
    if (at(keys_then, key) != value) return changed(key, at(keys_then, key), value);
  for (const auto& [key, value] : keys_then.items())
    if (!keys_now.contains(key)) return changed(key, value, OrderedJson());
  return "";
}

}  // namespace dtrain
