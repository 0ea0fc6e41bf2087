#include "dtrain/data/pixels/original_mask.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "dtrain/base/error.hpp"
#include "dtrain/data/pixels/augment.hpp"
#include "dtrain/data/pixels/resize.hpp"
#include "dtrain/data/pixels/transform.hpp"

namespace dtrain {

namespace {

/// Along one axis: the pixels [begin, begin + back.input) of what the network saw show the picture, and `back` is their
/// way to it.
struct WayBack {
  int64_t begin = 0;
  AxisFit back;
};

// `fit` is of fit_picture(), so that its numbers are whole; the network saw `seen` pixels of the canvas from `first`
// on.
WayBack way_back(const AxisFit& fit, int64_t first, int64_t seen) {
  const auto offset = static_cast<int64_t>(fit.offset);
  const int64_t begin = std::max(fit.first(), first);
  const int64_t end = std::min(fit.last(), first + seen);
  const auto scaled = [&](int64_t pixels) {  // exact where nothing is scaled, or all of the picture is seen
    return static_cast<double>(pixels * fit.input) / fit.resized;
  };
  return {begin - first, {end - begin, scaled(end - begin), scaled(begin - offset), fit.input}};
}

}  // namespace

std::vector<float> at_picture_size(std::span<const float> seen, int64_t height, int64_t width,
                                   const ImageOptions& options) {
  check(static_cast<int64_t>(seen.size()) == options.seen_height() * options.seen_width(),
        "all that was seen is there");
  const Fit fit = fit_picture(height, width, options);
  const int64_t start = walk_of({}, options).start;
  const WayBack rows = way_back(fit.rows, start / options.width, options.seen_height());
  const WayBack columns = way_back(fit.columns, start % options.width, options.seen_width());
  std::vector<float> out(static_cast<size_t>(height * width), 0.0F);
  if (rows.back.input <= 0 || columns.back.input <= 0) return out;
  std::vector<float> shown(static_cast<size_t>(rows.back.input * columns.back.input));
  for (int64_t y = 0; y < rows.back.input; ++y)
    std::copy_n(seen.data() + (rows.begin + y) * options.seen_width() + columns.begin, columns.back.input,
                shown.data() + y * columns.back.input);
  resize_plane(shown, {rows.back, columns.back}, out.data());
  return out;
}

std::vector<int64_t> pixel_values_of(const std::map<int64_t, int64_t>& mask_values, int64_t classes) {
  std::vector<int64_t> values(static_cast<size_t>(classes) + 1, -1);
  std::set<int64_t> taken;
  for (const auto& [value, number] : mask_values) {
    if (number < 1 || number > classes) continue;
    taken.insert(value);
    int64_t& of_class = values[static_cast<size_t>(number)];
    if (of_class < 0) of_class = value;
  }
  for (size_t k = 1; k < values.size(); ++k)
    if (values[k] < 0 || values[k] > 65535)
      throw ConfigError("data.image_mask.mask_values gives no pixel value from 0 to 65535 to class " +
                        std::to_string(k));
  int64_t background = taken.contains(0) ? 255 : 0;
  if (taken.contains(background)) background = 1;
  while (taken.contains(background)) ++background;
  values[0] = background;
  return values;
}

std::vector<int64_t> pixel_values_of(const std::map<int64_t, int64_t>& mask_values,
                                     const std::vector<std::string>& told, const std::vector<std::string>& classes) {
  std::map<int64_t, int64_t> values;
  for (const auto& [value, number] : mask_values) {
    if (number < 1) continue;
    const auto found = std::find(classes.begin(), classes.end(), told.at(static_cast<size_t>(number - 1)));
    if (found != classes.end()) values[value] = found - classes.begin() + 1;
  }
  return pixel_values_of(values, static_cast<int64_t>(classes.size()));
}

Image mask_of(const std::vector<uint8_t>& classes, int64_t height, int64_t width, const std::vector<int64_t>& values) {
  check(static_cast<int64_t>(classes.size()) == height * width, "each pixel of a mask has a class");
  const int bits = *std::max_element(values.begin(), values.end()) > 255 ? 16 : 8;
  Image mask{height, width, 1, bits, {}, {}};
  if (bits == 8) mask.bytes.resize(classes.size());
  if (bits == 16) mask.words.resize(classes.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    const int64_t value = values.at(classes[i]);
    if (bits == 8) mask.bytes[i] = static_cast<uint8_t>(value);
    if (bits == 16) mask.words[i] = static_cast<uint16_t>(value);
  }
  return mask;
}

Image probability_picture(const std::vector<float>& probabilities, int64_t height, int64_t width) {
  check(static_cast<int64_t>(probabilities.size()) == height * width, "each pixel has a probability");
  Image picture{height, width, 1, 16, {}, {}};
  for (const float value : probabilities)
    picture.words.push_back(
        static_cast<uint16_t>(std::lround(65535 * std::clamp(static_cast<double>(value), 0.0, 1.0))));
  return picture;
}

}  // namespace dtrain
