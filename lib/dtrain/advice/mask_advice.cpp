#include "dtrain/advice/mask_advice.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

constexpr size_t kMostClasses = 14;  // no suggestion for more

void MaskFacts::add(int64_t all_pixels, const std::map<int64_t, int64_t>& pixels_of_value, const std::string& file) {
  ++masks;
  pixels += all_pixels;
  for (const auto& [value, count] : pixels_of_value) {
    ++unlisted[value].masks;
    unlisted[value].pixels += count;
  }
  if (!pixels_of_value.empty() && (example.empty() || file < example)) example = file;
}

static std::string assignment(const std::map<int64_t, int64_t>& mask_values) {
  std::vector<std::string> entries;
  for (const auto& [value, number] : mask_values) entries.push_back(fmt::format("{}: {}", value, number));
  return shell_word("data.image_mask.mask_values={" + join(entries, ", ") + "}");
}

std::string mask_values_text(const std::vector<int64_t>& values) {
  std::map<int64_t, int64_t> classes;
  for (const int64_t value : values)
    if (value != 0) classes.emplace(value, static_cast<int64_t>(classes.size()) + 1);
  return classes.empty() || classes.size() > kMostClasses ? "" : assignment(classes);
}

// Suggests two settings: listed values keep their classes; the others each get a class of their own, or join the last.
static std::string cure(const MaskFacts& facts) {
  std::map<int64_t, int64_t> own = facts.listed;
  std::map<int64_t, int64_t> joined = facts.listed;
  int64_t classes = 0;
  for (const auto& [value, number] : facts.listed) classes = std::max(classes, number);
  const int64_t last = std::max<int64_t>(classes, 1);
  for (const auto& [value, seen] : facts.unlisted) {
    own[value] = ++classes;
    joined[value] = last;
  }
  return "if that is not meant, " + assignment(own) + " makes " +
         (facts.unlisted.size() == 1 ? "it a class" : "each a class") + " of its own, " + assignment(joined) +
         " counts " + (facts.unlisted.size() == 1 ? "it" : "them") + " to class " + std::to_string(last);
}

bool has_ignored_value(const std::map<int64_t, int64_t>& mask_values) {
  const auto others = static_cast<int64_t>(mask_values.size()) - 1;
  return others >= 1 && mask_values.contains(255) && others < 255 && mask_values.begin()->first == 1 &&
         std::next(mask_values.begin(), others - 1)->first == others;
}

static Finding ignored_value(std::map<int64_t, int64_t> listed) {
  listed.erase(255);
  return {weight::kPoor, "ignored_value",
          "the pixel value 255 of masks is a class beside those of 1 to " + std::to_string(listed.size()) +
              ": many data sets mark with it pixels that are not to be judged; if these do, " + assignment(listed) +
              " counts them as background"};
}

static Finding unlisted_values(const MaskFacts& facts) {
  int64_t pixels = 0;
  int64_t masks = 0;
  std::vector<std::string> values;
  for (const auto& [value, seen] : facts.unlisted) {
    pixels += seen.pixels;
    masks = std::max(masks, seen.masks);
    values.push_back(std::to_string(value));
  }
  std::vector<std::string> listed;
  for (const auto& [value, number] : facts.listed) listed.push_back(std::to_string(value));
  const bool one = values.size() == 1;
  const std::string where = " of the masks' pixels, in " + count_of(masks, "mask") + (one ? "" : " or more") + " of " +
                            with_commas(facts.masks) + ") " + (one ? "counts" : "count") +
                            " as background, since data.image_mask.mask_values lists " + join(listed, ", ") +
                            " only; " + facts.example + " has some: ";
  const double share = 100.0 * static_cast<double>(pixels) / static_cast<double>(std::max<int64_t>(facts.pixels, 1));
  const std::string amount = " (" + (share < 0.1 ? std::string("less than 0.1") : fixed(share, 1)) + " %";
  if (facts.unlisted.size() + facts.listed.size() > kMostClasses)
    return {weight::kWrong, "mask_values",
            count_of(static_cast<int64_t>(values.size()), "pixel value") + " between " + values.front() + " and " +
                values.back() + amount + where +
                "so many values come from resizing or compression, or these are pictures; write masks with only their "
                "class values, or exchange the folders of images and masks in the configuration"};
  return {
      weight::kWrong + 5, "mask_values",
      std::string(one ? "the pixel value " : "the pixel values ") + join(values, ", ") + amount + where + cure(facts)};
}

std::vector<Finding> mask_advice(const MaskFacts& facts) {
  std::vector<Finding> found;
  if (!facts.unlisted.empty()) found.push_back(unlisted_values(facts));
  if (has_ignored_value(facts.listed)) found.push_back(ignored_value(facts.listed));
  return found;
}

}  // namespace dtrain
