#include "dtrain/data/pixels/contact_sheet.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/data/pixels/resize.hpp"

namespace dtrain {

namespace {

constexpr Colour kPaper = {24, 26, 30};
constexpr Colour kInk = {232, 232, 226};
constexpr Colour kFaint = {150, 156, 166};
constexpr int64_t kGap = 12;  // between tiles, and around all
constexpr int64_t kLargest = 256;
constexpr int64_t kSmallest = 128;
constexpr int64_t kLegible = 200;  // tiles of this width have room for letters of twice the size

Image paper(int64_t height, int64_t width) {
  Image image{height, width, 3, 8, {}, {}};
  image.bytes.resize(static_cast<size_t>(height * width * 3));
  for (size_t i = 0; i < image.bytes.size(); ++i) image.bytes[i] = kPaper[i % 3];
  return image;
}

Image enlarged(const Image& picture, int64_t factor) {
  Image out{picture.height * factor, picture.width * factor, 3, 8, {}, {}};
  out.bytes.reserve(static_cast<size_t>(out.height * out.width * 3));
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x)
      for (int64_t c = 0; c < 3; ++c)
        out.bytes.push_back(picture.bytes[static_cast<size_t>((y / factor * picture.width + x / factor) * 3 + c)]);
  return out;
}

Image shrunk(const Image& picture, int64_t height, int64_t width) {
  ImageOptions size;
  size.height = height;
  size.width = width;
  std::vector<float> pixels(static_cast<size_t>(height * width * 3));
  resize_picture(picture, fit_picture(picture.height, picture.width, size), size, pixels.data());
  Image out{height, width, 3, 8, {}, {}};
  for (const float pixel : pixels)
    out.bytes.push_back(static_cast<uint8_t>(std::lround(255 * std::clamp(pixel, 0.0F, 1.0F))));
  return out;
}

Image for_sheet(const Image& picture) {
  check(picture.channels == 3 && picture.bits == 8, "a contact sheet is of 8-bit colour");
  const int64_t longer = std::max(picture.height, picture.width);
  if (longer > kLargest)
    return shrunk(picture, std::max<int64_t>(1, picture.height * kLargest / longer),
                  std::max<int64_t>(1, picture.width * kLargest / longer));
  return enlarged(picture, std::max<int64_t>(1, (kSmallest + longer - 1) / longer));
}

void put(Image& onto, int64_t y, int64_t x, const Image& picture) {
  for (int64_t row = 0; row < picture.height; ++row)
    std::copy_n(picture.bytes.begin() + row * picture.width * 3, picture.width * 3,
                onto.bytes.begin() + ((y + row) * onto.width + x) * 3);
}

std::string cut(const std::string& text, size_t letters) {
  return text.size() <= letters ? text : text.substr(0, letters - std::min<size_t>(letters, 2)) + "..";
}

// Lines of at most `letters`, broken at spaces.
std::vector<std::string> wrapped(const std::vector<std::string>& lines, size_t letters) {
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    std::string rest = plain_text(line);
    while (rest.size() > letters) {
      const size_t space = rest.rfind(' ', letters);
      if (space == std::string::npos || space == 0) break;
      out.push_back(rest.substr(0, space));
      rest = rest.substr(space + 1);
    }
    out.push_back(cut(rest, letters));
  }
  return out;
}

}  // namespace

Colour class_colour(int64_t number) {
  constexpr std::array<Colour, 8> kColours = {{{255, 92, 72},
                                               {64, 176, 255},
                                               {255, 204, 51},
                                               {96, 214, 112},
                                               {214, 120, 255},
                                               {64, 224, 208},
                                               {255, 140, 200},
                                               {180, 160, 110}}};
  return kColours[static_cast<size_t>(number - 1) % kColours.size()];
}

void overlay_mask(Image& picture, std::span<const uint8_t> classes) {
  check(picture.channels == 3 && static_cast<int64_t>(classes.size()) == picture.height * picture.width,
        "a mask has a class for each pixel");
  const auto class_at = [&](int64_t y, int64_t x) {
    return classes[static_cast<size_t>(std::clamp<int64_t>(y, 0, picture.height - 1) * picture.width +
                                       std::clamp<int64_t>(x, 0, picture.width - 1))];
  };
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < picture.width; ++x) {
      const uint8_t own = class_at(y, x);
      if (own == 0) continue;
      const bool border = class_at(y - 1, x) != own || class_at(y + 1, x) != own || class_at(y, x - 1) != own ||
                          class_at(y, x + 1) != own;
      const Colour colour = class_colour(own);
      for (size_t c = 0; c < 3; ++c) {
        uint8_t& value = picture.bytes[static_cast<size_t>((y * picture.width + x) * 3) + c];
        value = border ? colour[c] : static_cast<uint8_t>((13 * value + 7 * colour[c]) / 20);
      }
    }
}

Image contact_sheet(const std::vector<std::string>& heading, const std::vector<std::string>& columns,
                    const std::vector<SheetRow>& rows, const std::vector<SheetKey>& key) {
  check(!rows.empty() && !rows.front().tiles.empty(), "a contact sheet has a picture");
  const Image first = for_sheet(rows.front().tiles.front().picture);
  size_t most = columns.size();
  for (const SheetRow& row : rows) most = std::max(most, row.tiles.size());
  const int64_t step = first.width + kGap;
  const int64_t scale = first.width >= kLegible ? 2 : 1;  // of letters
  const int64_t letter = kLetterWidth * scale;
  const int64_t line_height = kLineHeight * scale;
  const int64_t width = kGap + step * static_cast<int64_t>(most);
  const auto letters = static_cast<size_t>(first.width / letter);
  const std::vector<std::string> top = wrapped(heading, static_cast<size_t>((width - 2 * kGap) / letter));
  std::vector<int64_t> lines;  // beneath the pictures of each row
  int64_t height = 2 * kGap + static_cast<int64_t>(top.size() + 1) * line_height;
  for (const SheetRow& row : rows) {
    size_t longest = 0;
    for (const SheetTile& tile : row.tiles) longest = std::max(longest, wrapped(tile.caption, letters).size());
    lines.push_back(static_cast<int64_t>(longest));
    height += first.height + (lines.back() + 1) * line_height + 6 + kGap;
  }
  if (!key.empty()) height += line_height + kGap;

  Image sheet = paper(height, width);
  int64_t y = kGap;
  for (size_t i = 0; i < top.size(); ++i, y += line_height)
    draw_text(sheet, y, kGap, top[i], i == 0 ? kInk : kFaint, scale);
  y += kGap / 2;
  for (size_t i = 0; i < columns.size(); ++i)
    draw_text(sheet, y, kGap + step * static_cast<int64_t>(i), cut(plain_text(columns[i]), letters), kInk, scale);
  y += line_height + kGap / 2;
  for (size_t r = 0; r < rows.size(); ++r) {
    draw_text(sheet, y, kGap, cut(plain_text(rows[r].title), static_cast<size_t>((width - 2 * kGap) / letter)), kFaint,
              scale);
    y += line_height;
    for (size_t i = 0; i < rows[r].tiles.size(); ++i) {
      const SheetTile& tile = rows[r].tiles[i];
      const int64_t x = kGap + step * static_cast<int64_t>(i);
      put(sheet, y, x, for_sheet(tile.picture));
      int64_t line_y = y + first.height + 4;
      for (const std::string& line : wrapped(tile.caption, letters)) {
        draw_text(sheet, line_y, x, line, kInk, scale);
        line_y += line_height;
      }
    }
    y += first.height + lines[r] * line_height + 6 + kGap;
  }
  int64_t x = kGap;
  for (const SheetKey& word : key) {
    draw_text(sheet, y, x, word.text, word.colour, scale);
    x += static_cast<int64_t>(plain_text(word.text).size() + 2) * letter;
  }
  return sheet;
}

}  // namespace dtrain
