#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/store/dataset.hpp"

namespace dtrain {

/// The pictures of another store, of which some may be missing or damaged: a black picture stands for one that cannot
/// be read, so that the others of its batch are computed as if nothing were wrong, and what was wrong is kept to be
/// asked for. There are no masks. Errors for which is_of_the_file() does not hold are thrown.
class ListedPictures final : public SampleStore {
 public:
  /// `store`: where the bytes are. `options`: the size of the black picture, and the range that is looked for.
  ListedPictures(std::shared_ptr<const SampleStore> store, const ImageOptions& options);

  /// What decoding a sample has found, kept until somebody takes it.
  struct Found {
    int64_t height = 0;  ///< of the file's picture; of the black one where it is bad
    int64_t width = 0;
    std::string bad;  ///< why it cannot be read, a sentence; "" = it was read
    /// Its pixels do not fit what the network is shown: data.image.range leaves nothing of them, or without a range
    /// they are 16-bit numbers of which the highest is below kNarrow of white (as of 12-bit detectors).
    bool off_range = false;
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
  static constexpr double kNarrow = 0.3;  // 14 of 16 bits are 0.25
  static constexpr std::string_view kUnread = "unread";
  std::string stamp(const Sample& sample) const override;  ///< kUnread likewise
  bool reads_ahead() const override { return store_->reads_ahead(); }
  void ask_ahead(const Sample& sample) const override { store_->ask_ahead(sample); }

 private:
  void note(const Sample& sample, Found found) const;
  bool is_bad(const Sample& sample) const;
  bool is_off_range(const Image& picture) const;

  std::shared_ptr<const SampleStore> store_;
  int64_t height_;
  int64_t width_;
  double range_low_;
  double range_high_;  // none where both are equal
  mutable std::mutex mutex_;
  mutable std::map<std::string, Found> found_;  // by path
};

}  // namespace dtrain
