#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// A picture format as the rest of the program knows it. Its file defines one at its end, image.cpp lists them, and
/// folder scans and error texts follow; no other code may know its endings (repo.picture_formats).
struct PictureFormat {
  /// Gets a whole file that begins() recognises, or whose name decides. Throws DataError naming `name` for whatever is
  /// wrong with it; checks every length before it allocates memory (check_pixels(), allocate_image()). Thread-safe.
  using Decode = Image (*)(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

  std::string name;                  ///< as sentences have it: "PNG"
  std::vector<std::string> endings;  ///< of files, in small letters: ".png"; what a folder scan takes for pictures
  bool (*begins)(std::string_view bytes) = nullptr;  ///< told by the first bytes, of which there is at least one
  Decode decode = nullptr;
  /// The same checks from the header alone; the file may be cut behind it.
  ImageHeader (*read_header)(std::span<const std::byte> file, const std::string& name,
                             const ImageLimits& limits) = nullptr;
  Decode decode_mask = nullptr;  ///< for decode_mask_image(); null: as decode
  bool exact = true;             ///< false: writing it changes pixel values, so masks of it are refused
  bool bare = false;  ///< a file may lack what begins() looks for: it is told by its ending where no format begins so
};

/// For packed shards, which hold such files too.
Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits);

/// Throws DataError if the header promises no pixel or more than allowed.
void check_pixels(const ImageHeader& header, const std::string& name, const ImageLimits& limits);

/// An image of that size with its samples allocated.
Image allocate_image(const ImageHeader& header);

/// Throws InternalError unless `image` is grey or RGB of 8 bits, or with `most_bits` 16 of 8 or 16, with all its
/// samples: what the encoders take.
void check_encodable(const Image& image, int most_bits = 8);

}  // namespace dtrain
