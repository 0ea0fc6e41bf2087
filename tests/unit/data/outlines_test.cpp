// What is drawn over a picture of its own size.
#include "dtrain/data/pixels/outlines.hpp"

#include <algorithm>

#include "folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

Image all_grey(int64_t height, int64_t width, uint8_t value) {
  return {height, width, 3, 8, std::vector<uint8_t>(static_cast<size_t>(height * width * 3), value), {}};
}

Colour at(const Image& image, size_t i) { return {image.bytes[3 * i], image.bytes[3 * i + 1], image.bytes[3 * i + 2]}; }

// By the words of the header.
bool is_outline(const std::vector<uint8_t>& classes, int64_t height, int64_t width, int64_t y, int64_t x,
                int64_t line) {
  const auto number = [&](int64_t row, int64_t column) { return classes[static_cast<size_t>(row * width + column)]; };
  for (int64_t row = std::max<int64_t>(0, y - line); row <= std::min(height - 1, y + line); ++row)
    for (int64_t column = std::max<int64_t>(0, x - line); column <= std::min(width - 1, x + line); ++column)
      if (number(row, column) != number(y, x)) return number(y, x) != 0;
  return false;
}

}  // namespace

TEST_CASE("an outline is what of a class lies within the line's width of another, whatever the shapes") {
  const int64_t height = 23, width = 31;
  for (const int64_t line : {1, 2, 3, 40})
    for (const uint32_t seed : {1U, 2U, 3U}) {
      std::vector<uint8_t> classes;
      for (const uint8_t value : random_image(height, width, 1, seed).bytes)
        classes.push_back(value < (seed == 1 ? 4 : 2) ? 0 : (value > 253 ? 2 : 1));
      Image picture = all_grey(height, width, 7);
      draw_outlines(picture, classes, line);
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x) {
          const auto i = static_cast<size_t>(y * width + x);
          const bool drawn = at(picture, i) != Colour{7, 7, 7};
          CHECK(drawn == is_outline(classes, height, width, y, x, line));
          if (drawn) CHECK(at(picture, i) == class_colour(classes[i]));
        }
    }
}

TEST_CASE("a class that fills the picture has no outline, and others can have other colours") {
  Image picture = all_grey(4, 4, 7);
  draw_outlines(picture, std::vector<uint8_t>(16, 1), 2);
  CHECK(picture.bytes == all_grey(4, 4, 7).bytes);
  std::vector<uint8_t> classes(16, 0);
  classes[5] = 3;
  draw_outlines(picture, classes, 1, [](int64_t number) { return Colour{0, static_cast<uint8_t>(number), 9}; });
  CHECK(at(picture, 5) == Colour{0, 3, 9});
  CHECK(outline_width(224, 767) == 1);
  CHECK(outline_width(1024, 768) == 2);
  CHECK(outline_width(4000, 6000) == 12);
}

TEST_CASE("a picture for display has colour, eight bits and the brightness that the network sees") {
  ImageOptions options;
  const Image colour = random_image(5, 4, 3, 9);
  CHECK(for_display(colour, options).bytes == colour.bytes);
  Image deep{1, 3, 1, 16, {}, {0, 32768, 65535}};
  CHECK(for_display(deep, options).bytes == std::vector<uint8_t>{0, 0, 0, 128, 128, 128, 255, 255, 255});
  options.range_low = 1000;
  options.range_high = 3000;
  deep.words = {500, 2000, 4000};
  CHECK(for_display(deep, options).bytes == std::vector<uint8_t>{0, 0, 0, 128, 128, 128, 255, 255, 255});
}
