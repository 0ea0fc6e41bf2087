#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/data/store/channel_files.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// One stored file of a sample: its picture, or one of its masks.
struct StoredFile {
  std::string path;
  RecordPlace place;  ///< in a record file
  bool is_mask = false;
};

/// What stores of picture files have in common, wherever these are: a picture and any number of masks, each a file of
/// one of the formats of io/pictures. A picture may also have several files or pages, each of them one grey channel:
/// they are merged here, for all formats alike.
class PictureFiles : public SampleStore {
 public:
  SampleFiles read(const Sample& sample, Wanted wanted) const override;
  Image decode_picture(const Sample& sample, const SampleFiles& files) const override;
  Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const override;
  std::vector<Image> raw_masks(const Sample& sample, const SampleFiles& files) const override;
  ImageHeader header(const Sample& sample) const override;
  std::string picture_name(const Sample& sample) const override;
  std::string manifest_text(const Sample& sample) const override;

  /// The files or pages whose pictures are the channels, in order; the picture's own file alone where it has all.
  virtual std::vector<StoredFile> channels_of(const Sample& sample) const;

 protected:
  virtual std::vector<std::byte> bytes_of(const StoredFile& file) const = 0;
  virtual ImageHeader header_of(const StoredFile& file) const = 0;
  virtual std::string name_of(const StoredFile& file) const = 0;
  /// For the manifest: changes with the file's content as far as that is visible without reading it.
  virtual std::string size_of(const StoredFile& file) const = 0;
};

/// Separate files under a folder. By data.image.files or .slices of `image` a picture's channels are in several of
/// them, or in neighbouring pages of a stack; beyond its ends the first or last page is repeated.
class FileStore final : public PictureFiles {
 public:
  explicit FileStore(std::string root, const ImageOptions& image = {})
      : root_(std::move(root)), files_(image.files), slices_(image.slices) {}

  std::vector<StoredFile> channels_of(const Sample& sample) const override;
  std::string manifest_head() const override;
  std::string stamp(const Sample& sample) const override;

 private:
  std::vector<std::byte> bytes_of(const StoredFile& file) const override;
  ImageHeader header_of(const StoredFile& file) const override;
  std::string name_of(const StoredFile& file) const override;
  std::string size_of(const StoredFile& file) const override;

  int64_t pages_of(const std::string& file) const;

  std::string root_;
  ChannelFiles files_;
  int64_t slices_;
  mutable std::mutex mutex_;                      // guards pages_
  mutable std::map<std::string, int64_t> pages_;  // of stacks whose pages have been counted
};

}  // namespace dtrain
