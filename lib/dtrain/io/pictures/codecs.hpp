#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

// The decoders behind decode_image(); nobody else includes this. Each gets a file of its own type (told by the
// first bytes) and throws DataError naming `name` for whatever is wrong with it.

Image decode_png(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
/// For decode_mask_image().
Image decode_png_mask(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
ImageHeader read_png_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
ImageHeader read_jpeg_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

/// Of one page: DataError for a file of several.
Image decode_tiff(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
ImageHeader read_tiff_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

Image decode_bmp(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
ImageHeader read_bmp_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

/// PBM, PGM, PPM and PAM, which begin with "P1" to "P7".
Image decode_pnm(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
ImageHeader read_pnm_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

/// Where libdtrain_dicom.so cannot be loaded (base/module_file.hpp), a DataError that says why.
Image decode_dicom(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);
ImageHeader read_dicom_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

/// Throws DataError if the header promises no pixel or more than allowed.
void check_pixels(const ImageHeader& header, const std::string& name, const ImageLimits& limits);

/// An image of that size with its samples allocated.
Image allocate_image(const ImageHeader& header);

/// Throws InternalError unless `image` is 8-bit grey or RGB with all its samples: what the encoders take.
void check_encodable(const Image& image);

}  // namespace dtrain
