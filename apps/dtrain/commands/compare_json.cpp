// The object of dtrain compare --json.
#include <cmath>
#include <nlohmann/json.hpp>

#include "commands/compare_report.hpp"

namespace dtrain {
namespace {

using nlohmann::ordered_json;

ordered_json differences_json(const std::vector<Difference>& differences) {
  ordered_json json = ordered_json::object();
  const auto value = [](const std::string& text) { return text.empty() ? ordered_json() : ordered_json(text); };
  for (const Difference& one : differences) json[one.what] = {{"a", value(one.a)}, {"b", value(one.b)}};
  return json;
}

ordered_json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

ordered_json paired_json(const PairedMeasure& paired) {
  ordered_json json = {{"a", number_or_null(paired.a)}, {"b", number_or_null(paired.b)}, {"groups", paired.groups}};
  if (!paired.test) {
    json["no_test"] = paired.no_test.empty() ? "undefined" : paired.no_test;
    return json;
  }
  const PairedTest& test = *paired.test;
  json["difference"] = test.difference;
  json["low"] = test.low;
  json["high"] = test.high;
  json["p"] = test.p;
  if (test.p_at_most) json["p_at_most"] = true;
  if (test.p_holm) json["p_holm"] = *test.p_holm;
  json["method"] = test.method;
  if (test.statistic) json["statistic"] = *test.statistic;
  if (test.degrees) json["degrees"] = *test.degrees;
  return json;
}

ordered_json metrics_json(const Comparison& c) {
  if (!c.samples) return {{"reason", c.no_values}};
  ordered_json json = {{"split", c.command.split},
                       {"samples", c.samples->a.samples()},
                       {"grouped_by", c.samples->groups.noun},
                       {"groups", c.samples->groups.count},
                       {"samples_only_a", c.samples->only_a},
                       {"samples_only_b", c.samples->only_b},
                       {"draws", c.command.draws}};
  ordered_json& values = json["values"] = ordered_json::object();
  for (const NamedPair& value : c.values) values[value.name] = paired_json(value.paired);
  return json;
}

ordered_json losses_json(const Parting& parting) {
  ordered_json json = {{"steps_of_both", parting.both}, {"steps_before_parting", parting.same}};
  json["first_step_apart"] = parting.first ? ordered_json(*parting.first) : ordered_json();
  if (!parting.first) return json;
  json["first_relative_difference"] = number_or_null(parting.first_apart);
  json["largest_relative_difference"] = number_or_null(parting.largest_apart);
  json["largest_at_step"] = parting.largest;
  json["last_step_of_both"] = parting.last;
  json["last_loss"] = {{"a", number_or_null(parting.last_a)}, {"b", number_or_null(parting.last_b)}};
  return json;
}

ordered_json time_json(const Comparison& c, const RunRecord& run) {
  const RunTimes times = times_of(run);
  const auto best = best_epoch(run.epochs, c.monitored_column(), c.larger_is_better);
  ordered_json json = {{"elapsed_s", number_or_null(times.elapsed_s)},
                       {"epoch_s_median", number_or_null(times.epoch_s)},
                       {"step_ms_median", number_or_null(times.step_ms)},
                       {"images_per_s", number_or_null(times.images_per_s)},
                       {"data_wait_share", number_or_null(times.data_wait_share)},
                       {"valid_s_median", number_or_null(times.valid_s)}};
  json["best_epoch"] = best ? ordered_json(best->epoch) : ordered_json();
  json["best_value"] = number_or_null(best ? std::optional(best->value) : std::nullopt);
  json["elapsed_s_to_best"] = number_or_null(best ? best->elapsed_s : std::nullopt);
  return json;
}

}  // namespace

std::string comparison_json(const Comparison& c) {
  const std::string a = c.a.text("result_sha256");
  ordered_json json = {{"a", c.a.folder},
                       {"b", c.b.folder},
                       {"same_result", !a.empty() && a == c.b.text("result_sha256")},
                       {"config", differences_json(c.keys)},
                       {"config_without_effect", differences_json(c.other_keys)},
                       {"facts", differences_json(c.facts)},
                       {"circumstances", differences_json(c.other_facts)},
                       {"metrics", metrics_json(c)},
                       {"monitor", c.monitor},
                       {"losses", losses_json(c.parting)},
                       {"time", {{"a", time_json(c, c.a)}, {"b", time_json(c, c.b)}}},
                       {"notes", c.notes}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dtrain
