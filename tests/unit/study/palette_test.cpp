#include "dtrain/study/drawing/palette.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

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

/// As each kind of dichromat sees a colour, and as all others do: Machado, Oliveira and Fernandes, A
/// Physiologically-based Model for Simulation of Color Vision Deficiency, 2009, at full severity.
static const std::vector<std::array<double, 9>> kVisions = {
    {1, 0, 0, 0, 1, 0, 0, 0, 1},
    {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
    {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
    {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}};

/// CIELAB (D65).
static std::array<double, 3> lab_of(std::string_view colour, const std::array<double, 9>& vision) {
  const std::array<double, 3> light = light_of(colour);
  const auto seen = [&](size_t row) {
    return vision[3 * row] * light[0] + vision[3 * row + 1] * light[1] + vision[3 * row + 2] * light[2];
  };
  const double r = seen(0), g = seen(1), b = seen(2);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * std::max(t, 0.0) + 16.0 / 116; };
  const double x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const double y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const double z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

TEST_CASE("any two colours of kinds are told apart with any colour vision") {
  for (const auto side : {&Ink::light, &Ink::dark})
    for (const auto& vision : kVisions)
      for (size_t i = 0; i < kind_inks().size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          const auto a = lab_of(kind_inks()[i].*side, vision), b = lab_of(kind_inks()[j].*side, vision);
          CAPTURE(kind_inks()[i].*side, kind_inks()[j].*side);
          CHECK(std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) >= 15);
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
