#pragma once
#include <tiffio.h>

#include <cstdint>
#include <string>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// What the directory of a TIFF page says, as far as pixels depend on it. Used by tiff.cpp alone, as all of this file.
struct TiffForm {
  int64_t height = 0;
  int64_t width = 0;
  uint16_t bits = 1;
  uint16_t samples = 1;  ///< per pixel as stored
  uint16_t photometric = 0;
  uint16_t compression = COMPRESSION_NONE;
  uint16_t planar = PLANARCONFIG_CONTIG;
  uint16_t orientation = ORIENTATION_TOPLEFT;
  bool premultiplied = false;  ///< the colours, by an alpha that follows them
  bool by_library = false;     ///< libtiff itself turns it to RGB: YCbCr that is no JPEG of today

  int64_t colours() const { return photometric == PHOTOMETRIC_RGB || photometric == PHOTOMETRIC_YCBCR ? 3 : 1; }
  /// Rows of bits, by one of the schemes of fax machines.
  bool fax() const;
  /// Samples of a pixel that are needed, the first ones.
  int64_t kept() const { return colours() + (premultiplied ? 1 : 0); }
  bool turned() const { return orientation >= ORIENTATION_LEFTTOP; }  ///< rows and columns change places

  /// Of the picture as it is to be looked at.
  ImageHeader header() const;
};

/// Of the current page of `tiff`. Throws DataError, naming `name`, for a damaged directory, more pixels than
/// `limits` allow, and kinds of pictures that are not read. Sets libtiff to give JPEG's YCbCr as RGB.
TiffForm read_tiff_form(TIFF* tiff, const std::string& name, const ImageLimits& limits);

/// A field's value or its default, `otherwise` where it has neither.
template <typename Value>
Value tiff_field(TIFF* tiff, uint32_t tag, Value otherwise) {
  Value value = otherwise;
  return TIFFGetFieldDefaulted(tiff, tag, &value) == 1 ? value : otherwise;
}

/// Throws DataError: NAME is a damaged TIFF, and why.
[[noreturn]] void refuse_damaged_tiff(const std::string& name, const std::string& why);

}  // namespace dtrain
