#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

/// Stands for a value that cannot be had; what is not finite is never drawn.
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// A figure for a table or a label: four significant digits, 1,234,567 whole, 1.2e-5 where it is very small or large,
/// 0.001 if that is all of it, "–" for a value that is missing.
std::string tidy_figure(double value);

enum class Scale { linear, log2, log10 };

struct Axis {
  std::string title = "";
  std::string unit = "";  ///< "" = a plain number
  Scale scale = Scale::linear;
  bool whole = false;                          ///< only whole numbers occur: no tick between them
  bool round_ends = true;                      ///< ends at a tick; else where the values end
  std::optional<double> least = std::nullopt;  ///< reaches at least down to this
  std::optional<double> most = std::nullopt;   ///< reaches at least up to this
  std::optional<double> limit = std::nullopt;  ///< no value can be above: the axis ends there at the latest
  std::vector<double> at = {};                 ///< ticks at these values alone, such as the numbers of ranks

  std::string text() const { return unit.empty() ? title : title + " (" + unit + ")"; }
};

/// A drawn axis: where it ends, and its ticks, ascending.
struct Ticks {
  Scale scale = Scale::linear;
  double low = 0;
  double high = 1;
  std::optional<double> limit = std::nullopt;  ///< no value can be above: the axis ends there at the latest
  std::vector<double> at = {};
  std::vector<std::string> texts = {};  ///< one for each of `at`

  /// Between 0 (low) and 1 (high); not finite for a value that a logarithm cannot show.
  double share(double value) const;
};

/// About `wanted` ticks for values from `least` to `most`; both are finite, and positive for a logarithm. Ticks are 1,
/// 2 or 5 times a power of ten, or powers of two.
Ticks ticks_of(const Axis& axis, double least, double most, int wanted);

}  // namespace dtrain
