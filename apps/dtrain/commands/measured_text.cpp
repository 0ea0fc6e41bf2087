#include "commands/measured_text.hpp"

#include "dtrain/base/text.hpp"

namespace dtrain {

static std::string interval_text(const Confidence& confidence, const std::string& noun, int digits) {
  if (!confidence.interval) return "no 95 % interval: " + confidence.no_interval;
  const Interval& interval = *confidence.interval;
  return "95 %: " + fixed(interval.low, digits) + " – " + fixed(interval.high, digits) + ", " + interval.method + ", " +
         count_of(confidence.groups, noun);
}

std::string measured_text(const NamedValue& one, const std::string& noun) {
  const Metric& metric = *one.metric;
  if (!one.measured.value)
    return "undefined: " + metric.undefined +
           (one.measured.undefined == 0 ? "" : " (" + with_commas(one.measured.undefined) + " left out)");
  const std::string left_out =
      one.measured.undefined == 0 ? "" : "; undefined and left out: " + with_commas(one.measured.undefined);
  return fixed(*one.measured.value, metric.digits) + "  (" +
         interval_text(one.measured.confidence, noun, metric.digits) + left_out + ")";
}

nlohmann::ordered_json measured_json(const Measured& measured) {
  if (!measured.value && measured.undefined == 0) return nullptr;
  if (!measured.value) return {{"value", nullptr}, {"undefined", measured.undefined}};
  const Confidence& confidence = measured.confidence;
  nlohmann::ordered_json json = {{"value", *measured.value},
                                 {"low", nullptr},
                                 {"high", nullptr},
                                 {"method", nullptr},
                                 {"groups", confidence.groups}};
  if (const auto& interval = confidence.interval) {
    json["low"] = interval->low;
    json["high"] = interval->high;
    json["method"] = interval->method;
  } else {
    json["no_interval"] = confidence.no_interval;
  }
  if (measured.undefined > 0) json["undefined"] = measured.undefined;
  return json;
}

}  // namespace dtrain
