#include "dtrain/advice/pixel_advice.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

static int64_t white_of(int bits) { return (int64_t{1} << bits) - 1; }

void PixelFacts::Some::add(const std::string& name) {
  if (pictures++ == 0 || name < first) first = name;
}

void PixelFacts::add(const std::string& name, int bits, int64_t lowest, int64_t highest) {
  Depth& depth = depths[bits];
  depth.lowest = depth.pictures == 0 ? lowest : std::min(depth.lowest, lowest);
  depth.highest = std::max(depth.highest, highest);
  ++depth.pictures;
  if (lowest == highest) {
    (highest == 0 ? black : lowest == white_of(bits) ? white : flat).add(name);
  } else if (has_range() && (static_cast<double>(highest) <= range_low || static_cast<double>(lowest) >= range_high)) {
    beyond_range.add(name);
  }
}

int64_t PixelFacts::pictures() const {
  int64_t sum = 0;
  for (const auto& [bits, depth] : depths) sum += depth.pictures;
  return sum;
}

// From 0, unless the darkest pixel is far from it, up to a whole number of bits, since cameras and detectors have such
// ranges.
static std::pair<int64_t, int64_t> fitting_range(int bits, const PixelFacts::Depth& depth) {
  if (depth.lowest > depth.highest / 4) return {depth.lowest, depth.highest};
  int64_t high = 1;
  while (high < depth.highest) high = 2 * high + 1;
  return {0, std::min(high, white_of(bits))};
}

// The share of the depth between black and white that the pixels use.
static double share_of(int bits, const PixelFacts::Depth& depth) {
  return static_cast<double>(depth.highest - depth.lowest) / static_cast<double>(white_of(bits));
}

static bool is_narrow(int bits, const PixelFacts::Depth& depth) {
  constexpr double kNarrow = 0.3;  // 14 of 16 bits are 0.25
  return depth.highest > depth.lowest && share_of(bits, depth) <= kNarrow;
}

std::optional<std::pair<int64_t, int64_t>> narrow_range(const PixelFacts& facts) {
  if (facts.has_range() || facts.depths.size() != 1) return std::nullopt;
  const auto& [bits, depth] = *facts.depths.begin();
  return is_narrow(bits, depth) ? std::optional(fitting_range(bits, depth)) : std::nullopt;
}

static void narrow_depths(const PixelFacts& facts, std::vector<Finding>& found) {
  for (const auto& [bits, depth] : facts.depths) {
    const int64_t white = white_of(bits);
    if (facts.has_range() || !is_narrow(bits, depth)) continue;
    const double share = share_of(bits, depth);
    const auto [low, high] = fitting_range(bits, depth);
    found.push_back({bits > 8 ? weight::kWrong + 5 : weight::kPoor, "pixel_range",
                     fmt::format("the pixels of {} of {} bits lie between {} and {} of {}, so the network would see {} "
                                 "% of the range from black to white: {} shows them",
                                 depth.pictures == 1 ? "the one picture" : "all " + count_of(depth.pictures, "picture"),
                                 bits, with_commas(depth.lowest), with_commas(depth.highest), with_commas(white),
                                 fixed(100 * share, share < 0.1 ? 1 : 0),
                                 shell_word(fmt::format("data.image.range=[{}, {}]", low, high)))});
  }
}

// [0, 1] where mean and standard deviation are for pixels in [0, 1]: nearly every pixel becomes black or white.
static void range_of_units(const PixelFacts& facts, std::vector<Finding>& found) {
  constexpr double kNarrowest = 4, kManyValues = 32;
  if (!facts.has_range() || facts.range_high - facts.range_low >= kNarrowest) return;
  for (const auto& [bits, depth] : facts.depths)
    if (static_cast<double>(depth.highest - depth.lowest) >= kManyValues)
      found.push_back(
          {weight::kWrong + 6, "range_of_units",
           fmt::format("data.image.range [{}, {}] is in the pixel values of the files, and those of {} bits "
                       "go up to {}, so nearly every pixel becomes black or white: leave it out for [0, "
                       "{}]; data.image.mean and .std are for pixels in [0, 1]",
                       shortest(facts.range_low), shortest(facts.range_high), bits, with_commas(depth.highest),
                       white_of(bits))});
}

static void single_values(const PixelFacts& facts, std::vector<Finding>& found) {
  constexpr double kMany = 0.1;
  for (const auto& [some, what] : {std::pair<const PixelFacts::Some&, std::string>{facts.black, "black throughout"},
                                   {facts.white, "white throughout"},
                                   {facts.flat, "of a single value"}}) {
    if (some.pictures == 0) continue;
    const bool many = static_cast<double>(some.pictures) > kMany * static_cast<double>(facts.pictures());
    found.push_back({many ? weight::kPoor + 5 : weight::kSmall, "pictures_of_one_value",
                     count_of(some.pictures, "picture") + (some.pictures == 1 ? " is " : " are ") + what +
                         ", such as " + some.first + ": look at them, and take out those that show nothing"});
  }
}

static void range_given(const PixelFacts& facts, std::vector<Finding>& found) {
  if (!facts.has_range()) return;
  const std::string range = "data.image.range [" + shortest(facts.range_low) + ", " + shortest(facts.range_high) + "]";
  if (facts.beyond_range.pictures > 0)
    found.push_back({weight::kWrong + 5, "beyond_range",
                     range + " leaves nothing of " + count_of(facts.beyond_range.pictures, "picture") + ", such as " +
                         facts.beyond_range.first +
                         ", whose pixels all lie beyond it: give the values as they are in "
                         "the files, or leave it out"});
  if (facts.depths.size() > 1)
    found.push_back(
        {weight::kPoor, "range_over_depths",
         fmt::format("{} holds for the {} of {} bits and for the {} of {} bits alike, in which a value rarely means "
                     "the same: convert them to one depth",
                     range, count_of(facts.depths.begin()->second.pictures, "picture"), facts.depths.begin()->first,
                     count_of(facts.depths.rbegin()->second.pictures, "picture"), facts.depths.rbegin()->first)});
}

std::vector<Finding> pixel_advice(const PixelFacts& facts) {
  std::vector<Finding> found;
  narrow_depths(facts, found);
  range_given(facts, found);
  range_of_units(facts, found);
  single_values(facts, found);
  return found;
}

}  // namespace dtrain
