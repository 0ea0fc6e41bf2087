#include "dtrain/base/time.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "dtrain/base/text.hpp"

namespace dtrain {

// Without an exponent, which parse_duration does not read.
static std::string plain(double amount) {
  std::string text = fixed(amount, 9);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string Duration::text() const {
  if (unit == Unit::seconds) return plain(amount) + " s";
  const std::string word = unit == Unit::epochs ? "epoch" : "step";
  return plain(amount) + " " + word + (amount == 1 ? "" : "s");
}

// Seconds in one `unit`, or 0 if it is not a unit of time.
static double seconds_of(std::string_view unit) {
  if (unit == "s" || unit == "second" || unit == "seconds") return 1;
  if (unit == "m" || unit == "min" || unit == "minute" || unit == "minutes") return 60;
  if (unit == "h" || unit == "hour" || unit == "hours") return 3600;
  return 0;
}

std::optional<Duration> parse_duration(std::string_view text) {
  double seconds = 0;
  bool any = false;
  for (text = trimmed(text); !text.empty(); text = trimmed(text), any = true) {
    double amount = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(amount) || amount < 0) return std::nullopt;
    text = trimmed(text.substr(static_cast<size_t>(end - text.data())));
    size_t letters = 0;
    while (letters < text.size() && text[letters] >= 'a' && text[letters] <= 'z') ++letters;
    const std::string_view unit = text.substr(0, letters);
    text = text.substr(letters);
    if (!any && text.empty() && (unit == "step" || unit == "steps")) return Duration{amount, Duration::Unit::steps};
    if (!any && text.empty() && (unit == "epoch" || unit == "epochs")) return Duration{amount, Duration::Unit::epochs};
    if (seconds_of(unit) == 0) return std::nullopt;
    seconds += amount * seconds_of(unit);
  }
  if (!any) return std::nullopt;
  return Duration{seconds, Duration::Unit::seconds};
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%02lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return buffer;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return buffer;
}

}  // namespace dtrain
