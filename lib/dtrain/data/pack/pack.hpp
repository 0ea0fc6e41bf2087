#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/base/words.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/data/store/dataset.hpp"
#include "dtrain/data/store/packed_manifest.hpp"

namespace dtrain {

enum class PackTo { packed, tfrecord, webdataset };

template <>
inline constexpr auto kWordsOf<PackTo> = std::to_array<Word<PackTo>>({{PackTo::packed, "packed"},
                                                                      {PackTo::tfrecord, "tfrecord"},
                                                                      {PackTo::webdataset, "webdataset"}});

/// A copy of a training sample that --expand adds, as AugmentDraw turns pictures: quarter turns are counter-clockwise.
enum class PackTurn { none, vflip, hflip, rot90, rot180, rot270 };

template <>
inline constexpr auto kWordsOf<PackTurn> = std::to_array<Word<PackTurn>>({{PackTurn::vflip, "vflip"},
                                                                          {PackTurn::hflip, "hflip"},
                                                                          {PackTurn::rot90, "rot90"},
                                                                          {PackTurn::rot180, "rot180"},
                                                                          {PackTurn::rot270, "rot270"}});

/// Throws UsageError for an unknown name.
PackTurn turn_named(const std::string& name);

struct PackedRecord;
struct StoredSample;

struct PackOptions {
  PackTo to = PackTo::packed;
  int64_t samples_per_shard = 256;
  std::vector<PackTurn> expand;          ///< copies beside each training sample, in this order, each once
  PackedCodec codec = PackedCodec::raw;  ///< to packed; else raw stands for PNG, and jpeg for JPEG
  int jpeg_quality = 95;                 ///< 1 … 100; of codec jpeg
};

/// One shard to be written: which records, in order.
struct PackShard {
  struct Item {
    int64_t sample = 0;  ///< index into Dataset::samples
    PackTurn turn = PackTurn::none;
  };
  std::string file;  ///< "train-00003-of-00438.dtpack"
  std::string part;  ///< "train", "valid", "test", or "" for samples in no part
  std::vector<Item> items;
};

/// A data set on its way into shards: decoded, resized and stored once. The bytes of a shard depend only on data, split
/// and options, never on who writes it: processes and threads may divide the shards as they like.
///
/// Stored is what data.image makes of a picture before range, augmentation and normalisation: `size`, `resize` and
/// `channels` (colour is converted to grey if that is 1; a grey picture keeps its one channel). A picture that needs
/// neither resizing nor conversion to grey is stored value for value; others are rounded to their own depth, 8 or 16
/// bits. Masks are resized to the nearest pixel and hold class numbers, 0 = background. A group that does not identify
/// a patient (tells_patient()) is left out.
///
/// `dataset` must outlive the object.
class PackJob {
 public:
  /// Throws ConfigError for quarter turns of pictures that are not square.
  PackJob(const Dataset& dataset, const Split& split, const DataOptions& data, const PackOptions& options);

  /// Training shards first, then those for validation, for testing, and of the samples in no part; samples in the order
  /// of the data set. Each has samples_per_shard records except the last of a part.
  const std::vector<PackShard>& shards() const { return shards_; }
  int64_t records() const { return records_; }
  /// Every sample has a known patient or group.
  bool has_groups() const;
  /// Without shards, not complete; what is not known here is left empty (source_format, config_sha256).
  const PackedManifest& manifest() const { return manifest_; }

  /// Shard `number`, if an earlier start of this same job wrote it; nothing if there is no such file or it is
  /// incomplete. For a packed shard header and index are checked, for another file all records.
  std::optional<PackedManifest::Shard> find(size_t number, const std::string& folder) const;

  /// Writes shard `number` into the existing `folder`, on `threads` threads. `tick` is called now and then, on the
  /// calling thread, with the number of records made so far; if it throws, the shard ends before anything is written. A
  /// whole shard is held in memory meanwhile. Throws DataError for a picture that cannot be read, and for what the
  /// format cannot hold (16 bits in JPEG, or for other programs).
  PackedManifest::Shard write(size_t number, const std::string& folder, int threads,
                              const std::function<void(int64_t done)>& tick) const;

 private:
  void add_part(const std::string& part, const std::vector<int64_t>& samples);
  void name_files();
  /// Of the shard's part, in earlier shards.
  int64_t records_before(size_t number) const;
  /// Decodes and turns each sample of a shard, on `threads` threads, and hands it to `store` there with its place.
  void make_records(const PackShard& shard, int threads, const std::function<void(int64_t done)>& tick,
                    const std::function<void(int64_t place, const StoredSample& stored)>& store) const;
  PackedRecord packed_record(const PackShard& shard, const PackShard::Item& item, const StoredSample& stored) const;
  /// The two kinds of write().
  PackedManifest::Shard write_packed(size_t number, const std::string& folder, int threads,
                                     const std::function<void(int64_t done)>& tick) const;
  PackedManifest::Shard write_exchanged(size_t number, const std::string& folder, int threads,
                                        const std::function<void(int64_t done)>& tick) const;

  const Dataset& dataset_;
  DataOptions data_;
  PackOptions options_;
  std::vector<PackShard> shards_;
  PackedManifest manifest_;
  int64_t records_ = 0;
};

}  // namespace dtrain
