#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "dtrain/data/options.hpp"
#include "dtrain/data/pixels/contact_sheet.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// What is drawn over a picture of its own size, for people to look at.

/// The picture as 8-bit RGB of the same size: black to white by data.image.range if given, as the network sees it, else
/// by the picture's depth. Of channels that are no colours the one that stands for all (ImageOptions::shown_channel()).
Image for_display(const Image& picture, const ImageOptions& options);

/// The line width, in pixels, at which outlines are still seen when a picture of this size is shown on a screen: 1 up
/// to 767 pixels of the longer side, then one more for every 512.
int64_t outline_width(int64_t height, int64_t width);

/// Draws the outline of each class of a mask into an 8-bit RGB picture of the same size: the pixels of a class that
/// have a pixel of another class, or of the background, within `width` (>= 1) rows and columns, so the line lies inside
/// the class. Nothing is drawn along the picture's edge. `classes`: one number per pixel, 0 = background; `colour`: of
/// class 1, 2 …
void draw_outlines(Image& picture, std::span<const uint8_t> classes, int64_t width,
                   const std::function<Colour(int64_t)>& colour = class_colour);

}  // namespace dtrain
