#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dtrain/io/packed/packed_shard.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

struct Dataset;
struct Sample;

/// A sample's bytes as they are stored; empty where pictures are made in memory.
struct SampleFiles {
  std::vector<std::byte> picture;
  std::vector<std::vector<std::byte>> masks;  ///< as Sample::masks
  PackedBytes mapped;                         ///< instead of them, where the store lies in memory; they are the store's

  /// Of all of them.
  int64_t bytes() const;
};

/// Where a data set's samples lie, and how their bytes become pixels: in files of their own (FileStore), in record
/// files (RecordSet), in packed shards (PackedSet), or nowhere, because they are made when they are wanted. Whatever
/// decides that (root, options, seed) is given to a store when it is made. A Dataset holds its store; the functions of
/// dataset.hpp call it. Several threads may use it at once.
///
/// Each sample is one of the data set that the store was made for. What cannot be read or decoded is an Error that
/// names file, record and offset: MissingError, IoError, DataError.
class SampleStore {
 public:
  enum class Wanted { all, picture, masks };

  virtual ~SampleStore() = default;

  virtual SampleFiles read(const Sample& sample, Wanted wanted) const = 0;
  virtual Image decode_picture(const Sample& sample, const SampleFiles& files) const = 0;
  /// The class of each pixel, by mask_values and classes of `dataset`, whose sample it is.
  virtual Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const = 0;
  /// The masks before mask_values; none where they hold classes already.
  virtual std::vector<Image> raw_masks(const Sample& sample, const SampleFiles& files) const = 0;

  /// What the headers say of the picture, with nothing decoded. Throws DataError where a mask's says another size.
  virtual ImageHeader header(const Sample& sample) const = 0;
  /// The picture's name in messages: its file, or record file, record and offset.
  virtual std::string picture_name(const Sample& sample) const = 0;

  /// What of the stored bytes enters Dataset::manifest_sha256, each text ended by a zero byte: of the sample (sizes of
  /// its files), and of the store as a whole.
  virtual std::string manifest_text(const Sample& sample) const = 0;
  virtual std::string manifest_head() const { return ""; }

  /// False where samples are made in memory: none can be missing or damaged, and reading costs nothing.
  virtual bool on_disk() const { return true; }
  /// Does ask_ahead() do anything?
  virtual bool reads_ahead() const { return false; }
  /// Has the kernel begin to read the sample, and returns at once. What stands against it, reading will tell.
  virtual void ask_ahead(const Sample& /*sample*/) const {}
  /// For messages: why masks may be background alone, where mask_values of this configuration have no say; else "".
  virtual std::string why_background() const { return ""; }
};

}  // namespace dtrain
