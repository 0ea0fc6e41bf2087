#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dtrain/base/memory.hpp"
#include "dtrain/data/options.hpp"
#include "dtrain/data/pixels/raw_pictures.hpp"
#include "dtrain/io/files/shared_memory.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

/// A cached picture and its mask; it points into the memory of SharedPictures.
struct KeptPicture {
  bool raw = false;    ///< of data.image.size, as raw_image() and raw_mask() give them, of `kind`; else as decoded
  PixelKind kind;      ///< only if raw
  ImageHeader header;  ///< only as decoded
  const std::byte* pixels = nullptr;
  const uint8_t* mask = nullptr;  ///< of as many pixels; null where there are no masks

  Image decoded_picture() const;  ///< copies; not for raw
  Image decoded_mask() const;
};

/// data.loader.cache: ram. Decoded pictures and masks in memory that the processes of a host share, put there by
/// whichever decodes a sample first, so that none of them reads or decodes it again. A sample changes its process from
/// epoch to epoch: shared memory holds the set once, whereas separate caches would each come to hold all of it.
/// A cached picture gives the same bits as the file: raw if the only augmentation is flips and quarter turns and raw is
/// smaller (bytes if nothing is resized, else floats of data.image.size), else as decoded, 8 or 16 bits in the
/// picture's own size. Any number of threads and processes may use it at once; no lock is held, so that one that is
/// killed stops nobody.
class SharedPictures {
 public:
  /// Memory for a data set of `samples` samples, whose pictures take up to `bytes`. One process of a host creates the
  /// object like this, the others by its address(). `may_be_raw`: augmentation only flips and turns. Throws IoError.
  SharedPictures(int64_t samples, int64_t bytes, const ImageOptions& image, bool may_be_raw);
  SharedPictures(const std::string& address, int64_t samples, const ImageOptions& image, bool may_be_raw);
  const std::string& address() const { return memory_.address(); }

  std::optional<KeptPicture> find(int64_t sample) const;
  /// Keeps a decoded picture and its mask (empty: none) unless they are there already, or the memory is full; false if
  /// they are not there afterwards.
  bool keep(int64_t sample, const Image& picture, const Image& mask);

  /// On this host, so far: samples and 1e6 bytes.
  int64_t kept() const;
  double megabytes() const;
  /// A sample found no room: in the size limit, or in the process's memory budget.
  bool full() const;

  /// Bytes that a picture with this header takes, with its mask.
  static int64_t bytes_of(const ImageHeader& picture, bool mask, const ImageOptions& image, bool may_be_raw);

 private:
  struct Head;
  Head& head() const;
  std::atomic_ref<int64_t> place_of(int64_t sample) const;
  int64_t first_place() const;

  SharedMemory memory_;
  MemoryDraw draw_{"data.loader.cache: ram", "set data.loader.cache=none"};
  int64_t samples_;
  ImageOptions image_;
  bool may_be_raw_;
};

}  // namespace dtrain
