#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// The pictures of another store, of which some may be missing or damaged: a black picture stands for one that cannot
/// be read, so that the others of its batch are computed as if nothing were wrong, and what was wrong is kept to be
/// asked for. There are no masks.
class ListedPictures final : public SampleStore {
 public:
  /// `store`: where the bytes are. `size`: of the black picture (options.height × options.width).
  ListedPictures(std::shared_ptr<const SampleStore> store, const ImageOptions& size);

  /// What decoding a sample has found, kept until somebody takes it.
  struct Found {
    int64_t height = 0;  ///< of the file's picture; of the black one where it is bad
    int64_t width = 0;
    std::string bad;  ///< why it cannot be read, a sentence; "" = it was read
  };
  /// Of a sample whose batch is complete. Throws InternalError for one that was never decoded.
  Found take(const Sample& sample) const;

  SampleFiles read(const Sample& sample, Wanted wanted) const override;
  Image decode_picture(const Sample& sample, const SampleFiles& files) const override;
  Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const override;
  std::vector<Image> raw_masks(const Sample&, const SampleFiles&) const override { return {}; }
  ImageHeader header(const Sample& sample) const override { return store_->header(sample); }
  std::string picture_name(const Sample& sample) const override { return store_->picture_name(sample); }
  /// kUnread for one that is absent or cannot be examined.
  std::string manifest_text(const Sample& sample) const override;
  static constexpr std::string_view kUnread = "unread";
  bool reads_ahead() const override { return store_->reads_ahead(); }
  void ask_ahead(const Sample& sample) const override { store_->ask_ahead(sample); }

 private:
  void note(const Sample& sample, Found found) const;
  bool is_bad(const Sample& sample) const;

  std::shared_ptr<const SampleStore> store_;
  int64_t height_;
  int64_t width_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Found> found_;  // by path
};

}  // namespace dtrain
