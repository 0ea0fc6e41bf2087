#include "dtrain/data/pixels/contact_sheet.hpp"

#include <algorithm>

#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

static Image plain(int64_t height, int64_t width, const Colour& colour) {
  Image image{height, width, 3, 8, {}, {}};
  for (int64_t i = 0; i < height * width; ++i) image.bytes.insert(image.bytes.end(), colour.begin(), colour.end());
  return image;
}

static int64_t count(const Image& image, const Colour& colour) {
  int64_t found = 0;
  for (size_t i = 0; i < image.bytes.size(); i += 3)
    found += std::equal(colour.begin(), colour.end(), image.bytes.begin() + static_cast<std::ptrdiff_t>(i)) ? 1 : 0;
  return found;
}

TEST_CASE("letters are drawn pixel by pixel, unknown ones as a question mark, none outside of the picture") {
  Image image = plain(9, 20, {0, 0, 0});
  draw_text(image, 1, 1, "T", {255, 255, 255});
  CHECK(count(image, {255, 255, 255}) == 5 + 6);
  Image twice = plain(20, 40, {0, 0, 0});
  draw_text(twice, 1, 1, "T", {255, 255, 255}, 2);
  CHECK(count(twice, {255, 255, 255}) == 4 * 11);
  CHECK(plain_text("Größe 3µm\n") == "Gr??e 3?m?");
  Image a = plain(9, 20, {0, 0, 0}), b = a;
  draw_text(a, 0, 0, "ß", {9, 9, 9});
  draw_text(b, 0, 0, "?", {9, 9, 9});
  CHECK(a.bytes == b.bytes);
  draw_text(b, -3, -3, "MMMMMMMMMM", {9, 9, 9});
  draw_text(b, 5, 18, "MMMMMMMMMM", {9, 9, 9}, 3);
  // Each letter looks different.
  std::vector<std::vector<uint8_t>> looks;
  for (char letter = ' '; letter <= '~'; ++letter) {
    Image one = plain(10, 6, {0, 0, 0});
    draw_text(one, 0, 0, std::string(1, letter), {1, 1, 1});
    CHECK(std::find(looks.begin(), looks.end(), one.bytes) == looks.end());
    looks.push_back(one.bytes);
  }
}

TEST_CASE("a mask is tinted by class inside and drawn in its colour along its border") {
  Image picture = plain(6, 6, {100, 100, 100});
  std::vector<uint8_t> classes(36, 0);
  for (size_t y = 1; y < 5; ++y)
    for (size_t x = 1; x < 5; ++x) classes[y * 6 + x] = 2;
  overlay_mask(picture, classes);
  CHECK(count(picture, class_colour(2)) == 12);
  CHECK(count(picture, {100, 100, 100}) == 20);
  CHECK(class_colour(1) != class_colour(2));
}

TEST_CASE("a contact sheet holds every picture whole, small ones enlarged, large ones shrunk") {
  const Colour red = {200, 10, 10}, blue = {10, 10, 200};
  const std::vector<SheetRow> rows = {{"first", {{plain(20, 30, red), {"a label"}}, {plain(20, 30, blue), {}}}},
                                      {"second", {{plain(20, 30, red), {"one that is far too long for its place"}}}}};
  const Image sheet = contact_sheet({"heading", "more"}, {"left", "right"}, rows, {{"cell", class_colour(1)}});
  CHECK(sheet.channels == 3);
  CHECK(count(sheet, red) == 2 * 25 * 600);  // five times larger
  CHECK(count(sheet, blue) == 25 * 600);
  CHECK(count(sheet, class_colour(1)) > 20);
  CHECK(sheet.width == 12 + 2 * (150 + 12));
  const Image large = contact_sheet({}, {}, {{"", {{plain(1000, 500, red), {}}}}});
  CHECK(count(large, red) == 256 * 128);
}
