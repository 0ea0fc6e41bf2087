#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dtrain/data/dataset.hpp"
#include "dtrain/io/record_file.hpp"

namespace dtrain {

/// The record files of a data set, from which any sample is read by its place. At most kMostOpen of them are open at
/// once, closed and opened again as they are needed; those that were compressed stay in memory. Several threads may use
/// it; a sample is read by one pread(2), so they do not wait for each other.
class RecordSet {
 public:
  static constexpr size_t kMostOpen = 128;

  /// `files`: relative to options.root, or to its folder where it is a file itself; in the order of their numbers;
  /// TFRecord or tar by options.format.
  RecordSet(const DataOptions& options, std::vector<std::string> files);
  ~RecordSet();

  const std::vector<std::string>& files() const { return files_; }
  /// The open file. Throws as open_tfrecord_file() and open_tar_file(); IoError if its size has changed since it was
  /// opened first; DataError if compressed files hold more than data.loader.decompressed_mb.
  std::shared_ptr<const RecordFile> open(int64_t file) const;

  /// The bytes of a sample's picture file, and of its mask's. Throws DataError naming file, record and offset for a
  /// record that is damaged.
  std::vector<std::byte> read_picture(const Sample& sample) const;
  std::vector<std::byte> read_mask(const Sample& sample, size_t mask) const;

  /// Has the kernel begin to read the sample's picture and masks, and returns at once. What stands against it, reading
  /// will tell.
  void ask_ahead(const Sample& sample) const;

  /// What stands at `place` in messages; `path` is a sample's or a mask's.
  std::string name_of(const std::string& path, const RecordPlace& place) const;

 private:
  struct State;
  std::vector<std::byte> read(const RecordPlace& place, const std::string& feature) const;

  DataOptions options_;
  std::vector<std::string> files_;
  std::unique_ptr<State> state_;
};

/// Record files beneath options.root by the names that the format has, natural order; options.root alone, whatever its
/// name, where it is a file. Throws DataError where there are
/// none, and as scan_folder().
std::vector<std::string> find_record_files(const DataOptions& options);

/// The part that a record file's name begins with (part_called()), else "". See open_dataset().
std::string part_of_file(const std::string& file);

}  // namespace dtrain
