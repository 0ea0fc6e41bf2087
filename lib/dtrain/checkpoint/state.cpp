#include "dtrain/checkpoint/state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/checkpoint/state_fields.hpp"
#include "dtrain/checkpoint/state_json.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {

using nlohmann::json;

namespace {

/// Checks the relations between counts that hold in every run: each epoch has at least one step, each step one sample.
void require_fitting(const TrainingState& s, const StateReader& reader) {
  const auto require = [&](bool holds, const char* name, const char* wanted) {
    if (!holds) reader.refuse(name, wanted);
  };
  const bool inside = s.cursor > 0;
  require(s.step >= s.epoch + (inside ? 1 : 0), "step", "must be at least one step for each epoch begun");
  require(s.without_loss <= s.cursor, "without_loss", "must not exceed 'cursor'");
  require(s.correct <= s.cursor, "correct", "must not exceed 'cursor'");
  require(s.skipped_steps <= s.cursor && s.skipped_steps <= s.step - s.epoch, "skipped_steps",
          "must not exceed the steps of the running epoch");
  require(inside || (s.loss_sum == 0 && s.coverage_sum == 0 && s.replaced_samples == 0), "cursor",
          "must be above 0 where samples of the epoch were counted");
  require(s.optimizer_updates <= s.step, "optimizer_updates", "must not exceed 'step'");
  require(s.thawed_at <= s.optimizer_updates, "thawed_at", "must not exceed 'optimizer_updates'");
  require(s.schedule.bad_epochs + s.schedule.reductions <= s.epoch, "schedule", "must count finished epochs only");
  require(s.best_epoch <= s.epoch, "best.epoch", "must be a finished epoch");
  require(s.best_epoch > 0 || std::isnan(s.best_value), "best.epoch", "must name the epoch of 'best.value'");
  require(s.best_epoch > 0 || (std::isnan(s.best_loss) && std::isnan(s.best_frequencies_loss)), "best.loss",
          "must be of the epoch of 'best.value'");
  require(s.loss_watch.steps <= s.step, "loss_watch.steps", "must not exceed 'step'");
  require(s.loss_watch.steps > 0 || s.loss_watch.sum == 0, "loss_watch.sum", "must be of the steps that are counted");
  int exponent = 0;
  require(s.loss_scale.scale >= LossScale::kLeast && s.loss_scale.scale <= LossScale::kMost &&
              std::frexp(s.loss_scale.scale, &exponent) == 0.5,
          "loss_scale.scale", "must be a power of two that a step can leave");
  require(s.loss_scale.good_steps <= s.step, "loss_scale.good_steps", "must not exceed 'step'");
}

}  // namespace

std::string to_json(const TrainingState& state) {
  StateWriter writer;
  visit_fields(writer, state);
  return writer.object.dump();
}

TrainingState training_state_from_json(const std::string& text, const std::string& file) {
  try {
    const json object = parse_json(text, file + ": its state");
    TrainingState state;
    StateReader reader(object, file);
    visit_fields(reader, state);
    reader.require_no_others();
    require_fitting(state, reader);
    return state;
  } catch (const json::exception& error) {
    throw DataError(file + ": its state cannot be read (" + error.what() +
                    "); the file was not written by this version of dtrain");
  }
}

}  // namespace dtrain
