#pragma once
#include <tiffio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtrain {

/// A TIFF file in memory as libtiff reads it, and the first thing it said was wrong. Used by tiff.cpp alone. `file`
/// must outlive it. Nothing is said on stderr, and files may be read on several threads, each with an input of its own.
struct TiffInput {
  std::span<const std::byte> file;
  uint64_t at = 0;
  std::string error;    ///< the first; "" while there is none
  bool strict = false;  ///< warnings count as errors: they are about pixels
  TIFF* tiff = nullptr;

  explicit TiffInput(std::span<const std::byte> bytes) : file(bytes) {}
  ~TiffInput();
  TiffInput(const TiffInput&) = delete;
  TiffInput& operator=(const TiffInput&) = delete;

  /// Sets `tiff` to the page whose directory is at `directory`; false if it cannot be read.
  bool open(const std::string& name, uint64_t directory);
};

}  // namespace dtrain
