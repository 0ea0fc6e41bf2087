#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// One stored file of a sample: its picture, or one of its masks.
struct StoredFile {
  const std::string& path;
  RecordPlace place;  ///< in a record file
  bool is_mask = false;
};

/// What stores of picture files have in common, wherever these are: a picture and any number of masks, each a file of
/// one of the formats of io/pictures.
class PictureFiles : public SampleStore {
 public:
  SampleFiles read(const Sample& sample, Wanted wanted) const override;
  Image decode_picture(const Sample& sample, const SampleFiles& files) const override;
  Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const override;
  std::vector<Image> raw_masks(const Sample& sample, const SampleFiles& files) const override;
  ImageHeader header(const Sample& sample) const override;
  std::string picture_name(const Sample& sample) const override;
  std::string manifest_text(const Sample& sample) const override;

 protected:
  virtual std::vector<std::byte> bytes_of(const StoredFile& file) const = 0;
  virtual ImageHeader header_of(const StoredFile& file) const = 0;
  virtual std::string name_of(const StoredFile& file) const = 0;
  /// For the manifest: changes with the file's content as far as that is visible without reading it.
  virtual std::string size_of(const StoredFile& file) const = 0;
};

/// Separate files under a folder.
class FileStore final : public PictureFiles {
 public:
  explicit FileStore(std::string root) : root_(std::move(root)) {}

  std::string stamp(const Sample& sample) const override;

 private:
  std::vector<std::byte> bytes_of(const StoredFile& file) const override;
  ImageHeader header_of(const StoredFile& file) const override;
  std::string name_of(const StoredFile& file) const override;
  std::string size_of(const StoredFile& file) const override;

  std::string root_;
};

}  // namespace dtrain
