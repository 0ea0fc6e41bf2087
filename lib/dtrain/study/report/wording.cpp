#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {

std::string length_text(std::optional<double> seconds) {
  if (!seconds || !std::isfinite(*seconds)) return "–";
  if (*seconds < 59.5) return fixed(*seconds, *seconds < 1 ? 2 : *seconds < 10 ? 1 : 0) + " s";
  const int64_t whole = std::llround(*seconds);
  const auto two = [](int64_t large, const std::string& unit, int64_t small, const std::string& part) {
    return std::to_string(large) + " " + unit + (small == 0 ? "" : " " + std::to_string(small) + " " + part);
  };
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  if (whole < int64_t{100} * 3600) return two(whole / 3600, "h", whole % 3600 / 60, "min");
  return two(whole / 86400, "d", whole % 86400 / 3600, "h");
}

TimeUnit time_unit(double most) {
  if (most >= 3 * 3600.0) return {.seconds = 3600, .name = "h"};
  if (most >= 3 * 60.0) return {.seconds = 60, .name = "min"};
  return {};
}

std::string column_words(const std::string& column) {
  std::string words = column;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<std::string> short_names(const std::vector<std::string>& names) {
  constexpr size_t kLongest = 36;
  constexpr std::string_view kBetween = ", ";
  if (names.size() < 2) return names;
  size_t same = names[0].size();
  for (const std::string& name : names)
    same = std::min(
        same, static_cast<size_t>(std::mismatch(name.begin(), name.end(), names[0].begin(), names[0].end()).first -
                                  name.begin()));
  const size_t last = std::string_view(names[0]).substr(0, same).rfind(kBetween);
  const size_t begin = last == std::string_view::npos ? 0 : last + kBetween.size();
  std::vector<std::string> out;
  for (const std::string& name : names) {
    size_t end = begin;
    for (size_t count = 0; end < name.size() && count < kLongest; ++count)
      end += std::max<size_t>(1, utf8_length(std::string_view(name).substr(end)));
    out.push_back(name.substr(begin, end - begin) + (end < name.size() ? "…" : ""));
  }
  const std::set<std::string> different(out.begin(), out.end());
  return different.size() == std::set<std::string>(names.begin(), names.end()).size() ? out : names;
}

Axis epoch_axis() { return {.title = "epoch", .whole = true, .round_ends = false}; }

Axis value_axis(const std::string& title, const std::vector<ChartLayer>& layers) {
  constexpr double kWideRange = 50;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const ChartLayer& layer : layers)
    for (const ChartPoint& point : layer.points)
      if (std::isfinite(point.y)) {
        least = std::min(least, point.y);
        most = std::max(most, point.y);
      }
  const bool is_share = least >= 0 && most <= 1;
  const bool is_wide = least > 0 && std::isfinite(least) && most > kWideRange * least;
  return {.title = title,
          .scale = is_wide ? Scale::log10 : Scale::linear,
          .limit = is_share ? std::optional(1.0) : std::nullopt};
}

std::string part_ink(const std::string& part, size_t position) {
  constexpr std::array<std::string_view, 7> kParts = {"compute", "data wait", "validation", "all-reduce",
                                                      "update",  "other",     "imbalance"};
  const auto at = std::find(kParts.begin(), kParts.end(), part);
  return kind_ink(at == kParts.end() ? position : static_cast<size_t>(at - kParts.begin()));
}

}  // namespace dtrain
