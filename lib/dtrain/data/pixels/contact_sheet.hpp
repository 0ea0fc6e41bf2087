#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/pictures/bitmap_text.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// One picture of a contact sheet with the lines beneath it.
struct SheetTile {
  Image picture;  ///< 8-bit RGB; all of a sheet have one size
  std::vector<std::string> caption;
};

struct SheetRow {
  std::string title;
  std::vector<SheetTile> tiles;
};

/// A word in the colour of its class, for the last line.
struct SheetKey {
  std::string text;
  Colour colour;
};

/// Pictures in rows and columns, with text, as one 8-bit RGB picture. Small pictures are enlarged by whole factors,
/// each pixel a square, large ones shrunk to 256 pixels. Text that does not fit is wrapped at spaces, or cut.
/// `heading`: lines on top; `columns`: a word above each column.
Image contact_sheet(const std::vector<std::string>& heading, const std::vector<std::string>& columns,
                    const std::vector<SheetRow>& rows, const std::vector<SheetKey>& key = {});

/// The colour in which class 1, 2 … of a mask is drawn.
Colour class_colour(int64_t number);

/// Tints the pixels of an 8-bit RGB picture by their class, 0 = background, one number per pixel; borders of a class
/// are drawn in its full colour.
void overlay_mask(Image& picture, std::span<const uint8_t> classes);

}  // namespace dtrain
