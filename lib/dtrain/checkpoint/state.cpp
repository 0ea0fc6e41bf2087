#include "dtrain/checkpoint/state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/io/json.hpp"

namespace dtrain {

using nlohmann::json;

static json number_or_null(double value) { return std::isnan(value) ? json(nullptr) : json(value); }
static double number_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::string to_json(const TrainingState& s) {
  return json{{"epoch", s.epoch},
              {"step", s.step},
              {"cursor", s.cursor},
              {"loss_sum", s.loss_sum},
              {"without_loss", s.without_loss},
              {"correct", s.correct},
              {"skipped_steps", s.skipped_steps},
              {"replaced_samples", s.replaced_samples},
              {"coverage_sum", s.coverage_sum},
              {"data_wait_s", s.data_wait_s},
              {"allreduce_s", s.allreduce_s},
              {"compute_s", s.compute_s},
              {"update_s", s.update_s},
              {"imbalance_s", s.imbalance_s},
              {"bytes_read", s.bytes_read},
              {"epoch_seconds", s.epoch_seconds},
              {"elapsed_s", s.elapsed_s},
              {"schedule",
               {{"best", number_or_null(s.schedule.best)},
                {"bad_epochs", s.schedule.bad_epochs},
                {"reductions", s.schedule.reductions}}},
              {"optimizer_updates", s.optimizer_updates},
              {"loss_scale", {{"scale", s.loss_scale.scale}, {"good_steps", s.loss_scale.good_steps}}},
              {"best", {{"value", number_or_null(s.best_value)}, {"epoch", s.best_epoch}}},
              {"logical_ranks", s.logical_ranks},
              {"split_sha256", s.split_sha256},
              {"manifest_sha256", s.manifest_sha256},
              {"trained_on", s.trained_on},
              {"classes", s.classes},
              {"config", s.config},
              {"versions", s.versions}}
      .dump();
}

TrainingState training_state_from_json(const std::string& text, const std::string& file) {
  try {
    const json j = parse_json(text, file + ": its state");
    TrainingState s;
    j.at("epoch").get_to(s.epoch);
    j.at("step").get_to(s.step);
    j.at("cursor").get_to(s.cursor);
    j.at("loss_sum").get_to(s.loss_sum);
    j.at("without_loss").get_to(s.without_loss);
    j.at("correct").get_to(s.correct);
    j.at("skipped_steps").get_to(s.skipped_steps);
    j.at("replaced_samples").get_to(s.replaced_samples);
    j.at("coverage_sum").get_to(s.coverage_sum);
    j.at("data_wait_s").get_to(s.data_wait_s);
    j.at("allreduce_s").get_to(s.allreduce_s);
    j.at("compute_s").get_to(s.compute_s);
    j.at("update_s").get_to(s.update_s);
    j.at("imbalance_s").get_to(s.imbalance_s);
    j.at("bytes_read").get_to(s.bytes_read);
    j.at("epoch_seconds").get_to(s.epoch_seconds);
    j.at("elapsed_s").get_to(s.elapsed_s);
    s.schedule.best = number_of(j.at("schedule").at("best"));
    j.at("schedule").at("bad_epochs").get_to(s.schedule.bad_epochs);
    j.at("schedule").at("reductions").get_to(s.schedule.reductions);
    j.at("optimizer_updates").get_to(s.optimizer_updates);
    j.at("loss_scale").at("scale").get_to(s.loss_scale.scale);
    j.at("loss_scale").at("good_steps").get_to(s.loss_scale.good_steps);
    s.best_value = number_of(j.at("best").at("value"));
    j.at("best").at("epoch").get_to(s.best_epoch);
    j.at("logical_ranks").get_to(s.logical_ranks);
    j.at("split_sha256").get_to(s.split_sha256);
    j.at("manifest_sha256").get_to(s.manifest_sha256);
    j.at("trained_on").get_to(s.trained_on);
    j.at("classes").get_to(s.classes);
    j.at("config").get_to(s.config);
    j.at("versions").get_to(s.versions);
    if (s.epoch < 0 || s.step < 0 || s.cursor < 0 || s.logical_ranks < 1)
      throw DataError(file + ": its state has a negative count");
    if (!(s.loss_scale.scale >= LossScale::kLeast && s.loss_scale.scale <= LossScale::kMost))
      throw DataError(file + ": its state has a loss scale that no step can have left");
    return s;
  } catch (const json::exception& error) {
    throw DataError(file + ": its state cannot be read (" + error.what() +
                    "); the file was not written by this version of dtrain");
  }
}

}  // namespace dtrain
