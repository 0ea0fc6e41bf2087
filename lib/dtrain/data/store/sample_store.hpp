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

/// A sample's bytes as they are stored; empty if pictures are made in memory.
struct SampleFiles {
  std::vector<std::byte> picture;
  std::vector<std::vector<std::byte>> channels;  ///< the picture's files instead of it, if it has several
  std::vector<std::vector<std::byte>> masks;     ///< as Sample::masks
  PackedBytes mapped;                            ///< instead of them, if the store is in memory; owned by the store

  /// Of all of them.
  int64_t bytes() const;
};

/// Where a data set's samples are, and how their bytes become pixels: in separate files (FileStore), in record files
/// (RecordSet), in packed shards (PackedSet), or nowhere, because they are made on demand. Whatever decides that (root,
/// options, seed) is given to a store's constructor. A Dataset holds its store; the functions of dataset.hpp call it.
/// Several threads may use it at once.
/// Each sample must be from the data set that the store was made for. If it cannot be read or decoded, an Error names
/// file, record and offset: MissingError, IoError, DataError.
class SampleStore {
 public:
  enum class Wanted { all, picture, masks };

  virtual ~SampleStore() = default;

  virtual SampleFiles read(const Sample& sample, Wanted wanted) const = 0;
  virtual Image decode_picture(const Sample& sample, const SampleFiles& files) const = 0;
  /// The class of each pixel, by mask_values and classes of `dataset`, whose sample it is.
  virtual Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const = 0;
  /// The masks before mask_values; none if they already hold classes.
  virtual std::vector<Image> raw_masks(const Sample& sample, const SampleFiles& files) const = 0;

  /// What the headers say about the picture, without decoding. Throws DataError if a mask's header gives another size.
  virtual ImageHeader header(const Sample& sample) const = 0;
  /// The picture's name in messages: its file, or record file, record and offset.
  virtual std::string picture_name(const Sample& sample) const = 0;

  /// What goes into Dataset::manifest_sha256, each text ended by a zero byte: of the sample (sizes of
  /// its files), and of the store as a whole.
  virtual std::string manifest_text(const Sample& sample) const = 0;
  virtual std::string manifest_head() const { return ""; }
  /// Changes when the picture's file is replaced by one of the same size, as far as that is visible without reading it:
  /// when it was changed, and where in it the sample is. Copies of a file on other hosts may have another stamp.
  virtual std::string stamp(const Sample& /*sample*/) const { return ""; }

  /// False if samples are made in memory: none can be missing or damaged, and reading costs nothing.
  virtual bool on_disk() const { return true; }
  /// Does ask_ahead() do anything?
  virtual bool reads_ahead() const { return false; }
  /// Makes the kernel start reading the sample, and returns at once. Errors will show when it is read.
  virtual void ask_ahead(const Sample& /*sample*/) const {}
  /// For messages: why masks may be all background although mask_values of this configuration has no effect; else "".
  virtual std::string why_background() const { return ""; }
};

}  // namespace dtrain
