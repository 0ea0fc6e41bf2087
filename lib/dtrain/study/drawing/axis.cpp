#include "dtrain/study/drawing/axis.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

constexpr double kWordy = 1e9;  // from here on 1.9e9
constexpr double kTiny = 1e-4;  // below this 9e-5

std::string digits_of(double value, std::chars_format format, int digits) {
  std::array<char, 400> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, digits).ptr;
  return {buffer.data(), end};
}

/// 1.90e+09 as 1.9e9.
std::string powered(double value, int digits) {
  const std::string text = digits_of(value, std::chars_format::scientific, digits);
  const size_t e = text.find('e');
  std::string head = text.substr(0, e);
  if (head.find('.') != std::string::npos) head.erase(head.find_last_not_of('0') + 1);
  if (head.ends_with('.')) head.pop_back();
  int power = 0;
  const size_t begin = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + begin, text.data() + text.size(), power);
  return head + "e" + std::to_string(power);
}

std::string fixed_digits(double value, int digits) { return digits_of(value, std::chars_format::fixed, digits); }

double power_of_ten(int power) { return std::pow(10.0, power); }

int decade(double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); }

/// The least of 1, 2, 5 times a power of ten that is not below `rough`.
double round_step(double rough) {
  const double power = power_of_ten(decade(rough));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// The text of a tick, with as many digits as ticks `step` apart need.
std::string tick_text(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest >= kWordy || step < kTiny) return powered(value, 2);
  if (step >= 1e6) return fixed_digits(value / 1e6, 0) + "M";
  if (step >= 1) return with_commas(std::llround(value));
  return fixed_digits(value, -decade(step));
}

Ticks linear_ticks(const Axis& axis, double least, double most, int wanted) {
  if (most - least <= 1e-12 * std::max(std::abs(least), std::abs(most))) {  // one value: room on both sides of it
    const double room = least == 0 || axis.whole ? 1 : std::abs(least) * 0.05;
    if (!axis.least || *axis.least < least) least -= room / 2;
    most = axis.limit && least <= *axis.limit ? std::min(most + room / 2, *axis.limit) : most + room / 2;
  }
  double step = round_step((most - least) / wanted);
  if (axis.whole) step = std::max(1.0, step);
  const double from = axis.round_ends ? std::floor(least / step + 1e-9) : std::ceil(least / step - 1e-9);
  const double to = axis.round_ends ? std::ceil(most / step - 1e-9) : std::floor(most / step + 1e-9);
  Ticks ticks{.low = axis.round_ends ? from * step : least, .high = axis.round_ends ? to * step : most};
  const double largest = std::max(std::abs(ticks.low), std::abs(ticks.high));
  for (auto at = static_cast<int64_t>(from), end = static_cast<int64_t>(to); at <= end; ++at) {
    const auto k = static_cast<double>(at);
    ticks.at.push_back(k * step);
    ticks.texts.push_back(tick_text(k * step, step, largest));
  }
  return ticks;
}

std::string log_text(double value) { return value >= 1e6 || value < 1e-3 ? powered(value, 2) : tidy_figure(value); }

Ticks log10_ticks(const Axis& axis, double least, double most) {
  Ticks ticks{.scale = Scale::log10, .low = least, .high = most};
  // 1, 2, 5 within three decades, powers of ten beyond, not all of them where there are many.
  const int decades = decade(most) - decade(least) + 1;
  const std::vector<double> factors = decades <= 3 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  const int every = std::max(1, (decades + 5) / 6);
  std::vector<double> all;
  for (int power = decade(least); power <= decade(most) + 1; ++power)
    if ((power - decade(least)) % every == 0 || decades <= 3)
      for (const double factor : factors) all.push_back(factor * power_of_ten(power));
  if (axis.round_ends) {
    for (const double value : all)
      if (value <= least * (1 + 1e-9)) ticks.low = value;
    ticks.high = *std::find_if(all.begin(), all.end(),
                               [&](double value) { return value >= most * (1 - 1e-9) || value == all.back(); });
    ticks.high = std::max(ticks.high, most);
  }
  if (ticks.high <= ticks.low) ticks.high = ticks.low * 2;
  for (const double value : all)
    if (value >= ticks.low * (1 - 1e-9) && value <= ticks.high * (1 + 1e-9)) ticks.at.push_back(value);
  for (const double value : ticks.at) ticks.texts.push_back(log_text(value));
  return ticks;
}

Ticks log2_ticks(const Axis& axis, double least, double most, int wanted) {
  Ticks ticks{.scale = Scale::log2, .low = least, .high = most};
  int from = static_cast<int>(std::floor(std::log2(least) + 1e-9));
  int to = static_cast<int>(std::ceil(std::log2(most) - 1e-9));
  if (to == from) ++to;
  if (axis.round_ends || least == most) {
    ticks.low = std::exp2(from);
    ticks.high = std::exp2(to);
  }
  const int every = std::max(1, (to - from + wanted - 1) / std::max(1, wanted));
  for (int power = from; power <= to; power += every) {
    const double value = std::exp2(power);
    if (value < ticks.low * (1 - 1e-9) || value > ticks.high * (1 + 1e-9)) continue;
    ticks.at.push_back(value);
    ticks.texts.push_back(tidy_figure(value));
  }
  return ticks;
}

}  // namespace

std::string tidy_figure(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= kWordy || size < kTiny) return powered(value, 3);
  if (size >= 1000 || value == std::round(value)) return with_commas(std::llround(value));
  // As many digits as its neighbours in a table have, but no zeros after a number that was given with fewer: 0.001.
  const std::string text = fixed_digits(value, std::min(4, 3 - decade(size)));
  const std::string exact = shortest(value);
  return exact.size() < text.size() ? exact : text;
}

double Ticks::share(double value) const {
  if (scale == Scale::linear) return (value - low) / (high - low);
  return value > 0 ? std::log(value / low) / std::log(high / low) : kMissing;
}

Ticks ticks_of(const Axis& axis, double least, double most, int wanted) {
  if (axis.least) least = std::min(least, *axis.least);
  if (axis.most) most = std::max(most, *axis.most);
  Ticks ticks = axis.scale == Scale::linear  ? linear_ticks(axis, least, most, wanted)
                : axis.scale == Scale::log10 ? log10_ticks(axis, least, most)
                                             : log2_ticks(axis, least, most, wanted);
  if (axis.at.empty()) return ticks;
  ticks.at.clear();
  ticks.texts.clear();
  for (const double value : axis.at)
    if (value >= ticks.low && value <= ticks.high) {
      ticks.at.push_back(value);
      ticks.texts.push_back(tidy_figure(value));
    }
  return ticks;
}

}  // namespace dtrain
