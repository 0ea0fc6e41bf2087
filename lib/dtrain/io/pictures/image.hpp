#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"

namespace dtrain {

/// The file may be sound, but what reads its format is not installed here (65), or is not sound itself.
struct NoReaderError : Error {
  using Error::Error;
};

/// A decoded picture: rows top to bottom, pixels left to right, channels interleaved (HWC).
/// 8-bit samples lie in `bytes`, 16-bit ones in `words` (host byte order); the other vector is empty.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  ///< 1 grey, 3 RGB; alpha is dropped, palettes are expanded
  int bits = 8;          ///< 8 or 16; white is 255 or 65535
  std::vector<uint8_t> bytes;
  std::vector<uint16_t> words;
};

/// What a file's header says, before any pixel is decoded.
struct ImageHeader {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  ///< as decode_image() would give them
  int bits = 8;
};

/// Bounds checked from the header before anything is allocated.
struct ImageLimits {
  int64_t max_pixels = int64_t{1} << 28;  ///< height × width, 268 million
};

/// Decodes a picture. The format is recognised by the file's first bytes, not by its name; where a format's decoder
/// ends, a comment says what it reads (`extern const PictureFormat` in png.cpp, jpeg.cpp …), docs/data.md says it to
/// users.
///
/// Gamma chunks and embedded profiles are ignored, alpha is dropped. 1-, 2- and 4-bit grey is spread to 0…255.
/// `name` is the file's name for messages. Thread-safe.
/// Throws DataError, naming the file, for anything else: truncated, a wrong checksum, 12-bit or arithmetic-coded JPEG,
/// TIFF of floats, signed samples, CMYK or other depths, DICOM of several frames, of JPEG 2000 or of floats, an unknown
/// type (the type is named where it is recognised: GIF, WebP …), more than max_pixels, a progressive JPEG of more than
/// 500 scans. A file too small for what its header promises is refused before memory is allocated for it. Stricter than
/// most viewers: damaged data, or data that end early, are refused, not filled with grey.
Image decode_image(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits = {});

/// The same for a mask, whose pixel values are classes, not light: of a PNG with a palette that has a colour in it, the
/// indices into the palette, as programs for annotation write them: one channel, 8 bits, not spread. A palette of greys
/// is one of grey values, as for decode_image().
Image decode_mask_image(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits = {});

/// The same checks from the header alone: damage further on is not seen. The start of a file may do where it holds the
/// whole header (a JPEG may carry megabytes of profiles before it).
ImageHeader read_image_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits = {});

/// A grey or RGB picture of 8 or 16 bits as a PNG file, every sample as it is, for generated data and predictions. The
/// bytes depend on the picture alone (and on the versions of libpng and zlib).
/// Throws InternalError unless the picture is such a one and not empty.
std::vector<std::byte> encode_png(const Image& image);

/// An 8-bit grey or RGB picture as a baseline JPEG file, colour at half resolution (4:2:0). quality 1…100.
/// Throws InternalError unless the picture is such a one, not empty and at most 65,500 pixels a side.
std::vector<std::byte> encode_jpeg(const Image& image, int quality = 90);

/// True for names with an ending of a format that is read (".png"), in any case: what a folder scan takes for a
/// picture.
bool has_image_extension(const std::string& path);
/// The format of a picture of that name, where writing it changes pixel values, so that it is none for masks: "JPEG".
/// "" for all other names.
std::string inexact_format(const std::string& path);
/// The ending, in small letters, of a picture or volume of a format that decode_image() does not read (".gif", ".webp",
/// ".jp2", ".nii.gz" …); "" for all other names.
std::string foreign_image_extension(const std::string& path);

}  // namespace dtrain
