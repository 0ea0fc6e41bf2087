#include "dtrain/study/drawing/palette.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

/// Red, green and blue of "#rrggbb" as light, between 0 and 1 (sRGB).
static std::array<double, 3> light_of(std::string_view colour) {
  std::array<double, 3> light{};
  for (size_t i = 0; i < 3; ++i) {
    int byte = 0;
    std::from_chars(colour.data() + 1 + 2 * i, colour.data() + 3 + 2 * i, byte, 16);
    const double value = byte / 255.0;
    light[i] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return light;
}

/// As the Web Content Accessibility Guidelines 2.1 define it: 1 to 21.
static double contrast(std::string_view a, std::string_view b) {
  const auto luminance = [](std::string_view colour) {
    const auto [red, green, blue] = light_of(colour);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

static const Ink& page_ink(std::string_view name) {
  for (const Ink& ink : page_inks())
    if (ink.name == name) return ink;
  FAIL("no ink " << name);
  return page_inks()[0];
}

TEST_CASE("the formula of contrast") {
  CHECK(contrast("#000000", "#ffffff") == Approx(21));
  CHECK(contrast("#767676", "#ffffff") == Approx(4.54).margin(0.005));
}

TEST_CASE("every colour of a series can be read as text, on light pages and on dark ones") {
  for (const std::span<const Ink> inks : {kind_inks(), order_inks()})
    for (const Ink& ink : inks) {
      CAPTURE(ink.name);
      CHECK(contrast(ink.light, page_ink("page").light) >= 4.5);
      CHECK(contrast(ink.dark, page_ink("page").dark) >= 4.5);
    }
}

TEST_CASE("text and links can be read on the page and on panels, the ideal line be seen") {
  for (const char* name : {"text", "muted", "link"})
    for (const char* ground : {"page", "panel"}) {
      CAPTURE(name, ground);
      CHECK(contrast(page_ink(name).light, page_ink(ground).light) >= 4.5);
      CHECK(contrast(page_ink(name).dark, page_ink(ground).dark) >= 4.5);
    }
  CHECK(contrast(page_ink("ideal").light, page_ink("page").light) >= 3);
  CHECK(contrast(page_ink("ideal").dark, page_ink("page").dark) >= 3);
}

TEST_CASE("colours in order grow lighter and are spread over all that there are") {
  for (size_t i = 1; i < order_inks().size(); ++i)
    CHECK(contrast(order_inks()[i].dark, "#000000") > 0.97 * contrast(order_inks()[i - 1].dark, "#000000"));
  CHECK(order_ink(0, 1) == "o0");
  CHECK(order_ink(0, 5) == "o0");
  CHECK(order_ink(4, 5) == "o7");
  CHECK(order_ink(1, 2) == "o7");
  CHECK(order_ink(9, 10) == "o7");
  CHECK(kind_ink(0) == kind_ink(kind_inks().size()));
}
