#include "dtrain/checkpoint/state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/checkpoint/state_fields.hpp"
#include "dtrain/checkpoint/weights_origin.hpp"
#include "dtrain/io/json.hpp"

namespace dtrain {

using nlohmann::json;

namespace {

/// The value under "name" or "group.name" of a JSON object, or of none.
json& at(json& object, const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? object[name] : object[name.substr(0, dot)][name.substr(dot + 1)];
}
const json& at(const json& object, const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? object.at(name) : object.at(name.substr(0, dot)).at(name.substr(dot + 1));
}

struct Writer {
  json object;

  void count(const char* name, int64_t value, int64_t, int64_t) { at(object, name) = value; }
  void sum(const char* name, uint64_t value) { at(object, name) = value; }
  void real(const char* name, double value) { at(object, name) = value; }
  void real_or_none(const char* name, double value) {
    at(object, name) = std::isnan(value) ? json(nullptr) : json(value);
  }
  void seconds(const char* name, double value) { at(object, name) = value; }
  void hash(const char* name, const std::string& text) { at(object, name) = text; }
  void digits(const char* name, const std::string& text) { at(object, name) = text; }
  void list(const char* name, const std::vector<std::string>& texts) { at(object, name) = texts; }
  void table(const char* name, const std::map<std::string, std::string>& texts) { at(object, name) = texts; }
};

/// Reads each field, and refuses what no run can have left there.
class Reader {
 public:
  Reader(const json& object, const std::string& file) : object_(object), file_(file) {}

  void count(const char* name, int64_t& value, int64_t least, int64_t most) const {
    const json& found = at(object_, name);
    const bool fits = found.is_number_integer() && (!found.is_number_unsigned() || found.get<uint64_t>() <= INT64_MAX);
    if (fits) value = found.get<int64_t>();
    if (!fits || value < least || value > most)
      refuse(name, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  void sum(const char* name, uint64_t& value) const {
    const json& found = at(object_, name);
    if (!found.is_number_unsigned()) refuse(name, "must be a whole number of 64 bits");
    value = found.get<uint64_t>();
  }
  void real(const char* name, double& value) const {
    const json& found = at(object_, name);
    if (found.is_number()) value = found.get<double>();
    if (!found.is_number() || !std::isfinite(value)) refuse(name, "must be a finite number");
  }
  void real_or_none(const char* name, double& value) const {
    value = std::numeric_limits<double>::quiet_NaN();
    if (!at(object_, name).is_null()) real(name, value);
  }
  void seconds(const char* name, double& value) const {
    // Some are differences of two clocks' times and can be rounded to a hair below nothing.
    constexpr double kLeast = -1e-3;
    constexpr double kMost = 1e12;
    real(name, value);
    if (value < kLeast || value > kMost) refuse(name, "must be seconds from 0 to 1e12");
  }
  void hash(const char* name, std::string& text) const {
    text = text_of(name, at(object_, name));
    if (!text.empty() && !is_sha256(text)) refuse(name, "must be a SHA-256");
  }
  void digits(const char* name, std::string& text) const {
    text = text_of(name, at(object_, name));
    require_training_digits(text, file_);
  }
  void list(const char* name, std::vector<std::string>& texts) const {
    const json& found = at(object_, name);
    if (!found.is_array() || found.size() > kMostTexts) refuse(name, "must be a list of texts");
    texts.clear();
    for (const json& text : found) {
      texts.push_back(text_of(name, text));
      if (!is_printable(texts.back())) refuse(name, "must hold no characters that steer a terminal");
    }
  }
  void table(const char* name, std::map<std::string, std::string>& texts) const {
    const json& found = at(object_, name);
    if (!found.is_object() || found.size() > kMostTexts) refuse(name, "must be an object of texts");
    texts.clear();
    for (const auto& [key, text] : found.items()) texts[key] = text_of(name, text);
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& wanted) const {
    throw DataError(file_ + ": in its state '" + name + "' " + wanted +
                    "; the file was changed or not written by this version of dtrain");
  }

 private:
  static constexpr size_t kMostTexts = 100'000;

  std::string text_of(const char* name, const json& text) const {
    if (!text.is_string()) refuse(name, "must be text");
    return text.get<std::string>();
  }

  const json& object_;
  const std::string& file_;
};

/// What the counts must be to each other, whatever the run: every epoch has a step, and every step a sample.
void require_fitting(const TrainingState& s, const Reader& reader) {
  const auto require = [&](bool holds, const char* name, const char* wanted) {
    if (!holds) reader.refuse(name, wanted);
  };
  const bool inside = s.cursor > 0;
  require(s.step >= s.epoch + (inside ? 1 : 0), "step", "must be at least a step for each epoch that was begun");
  require(s.without_loss <= s.cursor, "without_loss", "must not exceed 'cursor'");
  require(s.correct <= s.cursor, "correct", "must not exceed 'cursor'");
  require(s.skipped_steps <= s.cursor && s.skipped_steps <= s.step - s.epoch, "skipped_steps",
          "must not exceed the steps of the running epoch");
  require(inside || (s.loss_sum == 0 && s.coverage_sum == 0 && s.replaced_samples == 0), "cursor",
          "must be above 0 where samples of the epoch were counted");
  require(s.optimizer_updates <= s.step, "optimizer_updates", "must not exceed 'step'");
  require(s.schedule.bad_epochs + s.schedule.reductions <= s.epoch, "schedule", "must count finished epochs only");
  require(s.best_epoch <= s.epoch, "best.epoch", "must be a finished epoch");
  require(s.best_epoch > 0 || std::isnan(s.best_value), "best.epoch", "must name the epoch of 'best.value'");
  int exponent = 0;
  require(s.loss_scale.scale >= LossScale::kLeast && s.loss_scale.scale <= LossScale::kMost &&
              std::frexp(s.loss_scale.scale, &exponent) == 0.5,
          "loss_scale.scale", "must be a power of two that a step can have left");
  require(s.loss_scale.good_steps <= s.step, "loss_scale.good_steps", "must not exceed 'step'");
}

}  // namespace

std::string to_json(const TrainingState& state) {
  Writer writer;
  visit_fields(writer, state);
  return writer.object.dump();
}

TrainingState training_state_from_json(const std::string& text, const std::string& file) {
  try {
    const json object = parse_json(text, file + ": its state");
    TrainingState state;
    const Reader reader(object, file);
    visit_fields(reader, state);
    require_fitting(state, reader);
    return state;
  } catch (const json::exception& error) {
    throw DataError(file + ": its state cannot be read (" + error.what() +
                    "); the file was not written by this version of dtrain");
  }
}

}  // namespace dtrain
