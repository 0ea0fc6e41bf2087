#include "dtrain/checkpoint/weights_origin.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/checkpoint/state.hpp"
#include "dtrain/checkpoint/state_fields.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {

static bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_sha256(const std::string& text) { return text.size() == 64 && is_hex(text); }

void require_training_digits(const std::string& digits, const std::string& file) {
  constexpr size_t kEach = 12;
  constexpr size_t kMost = 100'000;
  bool right = digits.size() % kEach == 0 && digits.size() / kEach <= kMost && is_hex(digits);
  for (size_t at = kEach; right && at < digits.size(); at += kEach)
    right = digits.compare(at - kEach, kEach, digits, at, kEach) < 0;
  if (!right)
    throw DataError(file +
                    ": 'trained_on' is not a valid list of training samples (groups of 12 hex digits, ascending, each "
                    "once); the file was changed, use another copy");
}

[[noreturn]] static void refuse(const std::string& file, const std::string& key, const std::string& wanted) {
  throw DataError(file + ": '" + key + "' in its metadata is not a valid " + wanted +
                  "; the file was changed, use another copy");
}

static std::vector<std::string> names_in(const std::string& text, const std::string& file, bool ours) {
  const auto parsed = try_parse_json(text);
  std::vector<std::string> names;
  const bool right = parsed.is_array() && std::all_of(parsed.begin(), parsed.end(),
                                                      [](const nlohmann::json& name) { return name.is_string(); });
  if (!right && ours) refuse(file, "classes", "list of names");
  if (right) names = parsed.get<std::vector<std::string>>();
  if (!std::all_of(names.begin(), names.end(), is_printable))
    refuse(file, "classes", "list of names that a terminal can show");
  return names;
}

// [[0,0],[255,1]]
static std::map<int64_t, int64_t> mask_values_in(const std::string& text, const std::string& file, size_t classes) {
  const auto parsed = try_parse_json(text);
  std::map<int64_t, int64_t> values;
  const auto is_number = [](const nlohmann::json& one, int64_t most) {
    return one.is_number_integer() && one.get<double>() >= 0 && one.get<double>() <= static_cast<double>(most);
  };
  const auto is_pair = [&](const nlohmann::json& one) {
    return one.is_array() && one.size() == 2 && is_number(one[0], 65535) &&
           is_number(one[1], static_cast<int64_t>(classes));
  };
  if (!parsed.is_array() || !std::all_of(parsed.begin(), parsed.end(), is_pair))
    refuse(file, "mask_values", "list of pixel values and their classes");
  for (const nlohmann::json& pair : parsed) values[pair[0].get<int64_t>()] = pair[1].get<int64_t>();
  return values;
}

/// 0 for what is not a whole number from 1 to `most`.
static int64_t number_in(const std::string& text, int64_t most) {
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size() && number >= 1 && number <= most ? number : 0;
}

WeightsOrigin weights_origin(const std::map<std::string, std::string>& metadata, const std::string& file) {
  if (const auto state = metadata.find("state"); state != metadata.end()) {
    const TrainingState training = training_state_from_json(state->second, file);
    return {"model.", training.logical_ranks, training.classes, training.split_sha256, training.trained_on, {}, {}};
  }
  const auto text_of = [&](const std::string& key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  const bool ours = text_of("format").starts_with("dtrain-weights-");
  WeightsOrigin origin;
  origin.trained_on = text_of("trained_on");
  require_training_digits(origin.trained_on, file);
  origin.split_sha256 = text_of("split_sha256");
  if (ours && !origin.split_sha256.empty() && !is_sha256(origin.split_sha256)) refuse(file, "split_sha256", "SHA-256");
  if (metadata.contains("logical_ranks")) {
    origin.logical_ranks = number_in(text_of("logical_ranks"), kMostLogicalRanks);
    if (ours && origin.logical_ranks == 0)
      refuse(file, "logical_ranks", "number from 1 to " + std::to_string(kMostLogicalRanks));
  }
  if (ours && metadata.contains("epoch") && number_in(text_of("epoch"), kMostEpochs) == 0)
    refuse(file, "epoch", "number from 1 to " + std::to_string(kMostEpochs));
  if (metadata.contains("classes")) origin.classes = names_in(text_of("classes"), file, ours);
  if (ours && metadata.contains("mask_values"))
    origin.mask_values = mask_values_in(text_of("mask_values"), file, origin.classes.size());
  if (ours && metadata.contains(kFittedKey))
    origin.fitted = fitted_from_json(text_of(kFittedKey), origin.classes.size(), file);
  return origin;
}

std::string other_size(const std::map<std::string, std::string>& metadata, const std::string& file, int64_t height,
                       int64_t width) {
  const std::string size = std::to_string(height) + "," + std::to_string(width);
  const auto trained = metadata.find("image_size");
  if (trained == metadata.end() || trained->second == size) return "";
  return file + " was trained on pictures of " + trained->second + " and is used on pictures of " + size +
         "; see data.image.size and data.image.window";
}

}  // namespace dtrain
