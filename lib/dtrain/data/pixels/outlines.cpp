#include "dtrain/data/pixels/outlines.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/pixels/resize.hpp"

namespace dtrain {

namespace {

bool is_display(const Image& picture, size_t pixels) {
  return picture.channels == 3 && picture.bits == 8 && static_cast<int64_t>(pixels) == picture.height * picture.width;
}

// Marks in `differs` each of `count` values, `stride` apart, that has another value within `reach` places.
void mark_changes(const uint8_t* values, int64_t count, int64_t stride, int64_t reach, uint8_t* differs) {
  int64_t changed = 0;  // the last place whose value is not that of the place before it; 0: none yet
  for (int64_t i = 1; i < count; ++i) {
    if (values[i * stride] != values[(i - 1) * stride]) {
      for (int64_t back = std::max(changed, i - reach); back < i; ++back) differs[back * stride] = 1;
      changed = i;
    }
    if (changed > 0 && i - changed < reach) differs[i * stride] = 1;
  }
}

}  // namespace

Image for_display(const Image& picture, const ImageOptions& options) {
  const auto whole = [](int64_t side) { return AxisFit{side, static_cast<double>(side), 0, side}; };
  std::vector<float> pixels(static_cast<size_t>(picture.height * picture.width * picture.channels));
  resize_picture(picture, {whole(picture.height), whole(picture.width)}, options, pixels.data());
  Image out{picture.height, picture.width, 3, 8, {}, {}};
  const bool grey = picture.channels == 1 || options.is_stacked();
  const int64_t first = picture.channels == 1 ? 0 : options.is_stacked() ? options.shown_channel() : 0;
  const int64_t step = grey ? picture.channels : 1;
  out.bytes.reserve(static_cast<size_t>(3 * picture.height * picture.width));
  for (auto i = static_cast<size_t>(first); i < pixels.size(); i += static_cast<size_t>(step))
    out.bytes.insert(out.bytes.end(), grey ? 3 : 1,
                     static_cast<uint8_t>(std::lround(255 * std::clamp(pixels[i], 0.0F, 1.0F))));
  return out;
}

int64_t outline_width(int64_t height, int64_t width) {
  return std::max<int64_t>(1, (std::max(height, width) + 256) / 512);
}

void draw_outlines(Image& picture, std::span<const uint8_t> classes, int64_t width,
                   const std::function<Colour(int64_t)>& colour) {
  check(is_display(picture, classes.size()) && width >= 1, "outlines are drawn into a picture of the mask's size");
  // Another value within a square: somewhere in the pixel's column, or in the row of a pixel of that column.
  std::vector<uint8_t> in_row(classes.size(), 0);
  for (int64_t y = 0; y < picture.height; ++y)
    mark_changes(classes.data() + y * picture.width, picture.width, 1, width, in_row.data() + y * picture.width);
  std::vector<uint8_t> outline(classes.size(), 0);
  for (int64_t x = 0; x < picture.width; ++x) {
    mark_changes(classes.data() + x, picture.height, picture.width, width, outline.data() + x);
    int64_t reached = 0;  // rows before it are marked
    for (int64_t y = 0; y < picture.height; ++y) {
      if (in_row[static_cast<size_t>(y * picture.width + x)] == 0) continue;
      const int64_t end = std::min(y + width + 1, picture.height);
      for (reached = std::max(reached, y - width); reached < end; ++reached)
        outline[static_cast<size_t>(reached * picture.width + x)] = 1;
    }
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] == 0 || outline[i] == 0) continue;
    const Colour own = colour(classes[i]);
    std::copy(own.begin(), own.end(), picture.bytes.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
}

}  // namespace dtrain
