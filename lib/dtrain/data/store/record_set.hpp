#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/data/store/file_store.hpp"
#include "dtrain/io/records/record_file.hpp"

namespace dtrain {

/// The record files of a data set, from which any sample is read by its place; the derived format defines what a record
/// is. At most kMostOpen of them are open at once, closed and reopened as needed; compressed ones stay in memory.
/// Several threads may use it; a sample is read by one pread(2), so they do not wait for each other.
class RecordSet : public PictureFiles {
 public:
  static constexpr size_t kMostOpen = 128;

  /// `files`: relative to options.root, or to its folder if it is itself a file; in the order of their numbers.
  RecordSet(const DataOptions& options, std::vector<std::string> files);
  ~RecordSet() override;

  const std::vector<std::string>& files() const { return files_; }
  /// The open file. Throws as open_file(); IoError if its size has changed since it was first opened; DataError if
  /// compressed files hold more than data.loader.decompressed_mb.
  std::shared_ptr<const RecordFile> open(int64_t file) const;

  std::string stamp(const Sample& sample) const override;
  bool reads_ahead() const override { return true; }
  void ask_ahead(const Sample& sample) const override;

 protected:
  /// `room`: bytes that a compressed file may hold.
  virtual RecordFile open_file(const std::string& path, int64_t room) const = 0;
  /// The path of a record file, or of something named like one, as messages show it.
  std::string whole_path(const std::string& name) const;

  /// A record is read completely, because its checksum covers all of it.
  ImageHeader header_of(const StoredFile& file) const override;
  std::string size_of(const StoredFile& file) const override;

 private:
  struct State;

  std::string root_;
  int64_t decompressed_bytes_;
  std::vector<std::string> files_;
  std::unique_ptr<State> state_;
};

}  // namespace dtrain
