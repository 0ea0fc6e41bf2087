#include "dtrain/data/store/listed_pictures.hpp"

#include <algorithm>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/data/store/picture_faults.hpp"
#include "dtrain/io/pictures/image.hpp"

namespace dtrain {

template <typename Look>
static std::string unless_unread(const Look& look) {
  try {
    return look();
  } catch (const Error& error) {
    if (!is_of_the_file(error)) throw_of_the_machine(error);
    return std::string(ListedPictures::kUnread);
  }
}

ListedPictures::ListedPictures(std::shared_ptr<const SampleStore> store, const ImageOptions& options)
    : store_(std::move(store)),
      height_(options.height),
      width_(options.width),
      range_low_(options.range_low),
      range_high_(options.range_high) {}

bool ListedPictures::is_off_range(const Image& picture) const {
  const bool has_range = range_low_ != range_high_;
  if (picture.bits == 8 && !has_range) return false;
  double lowest = 0, highest = 0;
  if (picture.bits == 8) {
    const auto [low, high] = std::minmax_element(picture.bytes.begin(), picture.bytes.end());
    lowest = *low, highest = *high;
  } else {
    const auto [low, high] = std::minmax_element(picture.words.begin(), picture.words.end());
    lowest = *low, highest = *high;
  }
  if (lowest == highest) return false;  // nothing is in it, whatever the range
  return has_range ? highest <= range_low_ || lowest >= range_high_ : highest < kNarrow * 65535;
}

ListedPictures::Found ListedPictures::take(const Sample& sample) const {
  const std::lock_guard lock(mutex_);
  const auto found = found_.find(sample.path);
  check(found != found_.end(), "a picture of a complete batch was decoded");
  Found taken = std::move(found->second);
  found_.erase(found);
  return taken;
}

void ListedPictures::note(const Sample& sample, Found found) const {
  const std::lock_guard lock(mutex_);
  found_[sample.path] = std::move(found);
}

bool ListedPictures::is_bad(const Sample& sample) const {
  const std::lock_guard lock(mutex_);
  const auto found = found_.find(sample.path);
  return found != found_.end() && !found->second.bad.empty();
}

SampleFiles ListedPictures::read(const Sample& sample, Wanted wanted) const {
  try {
    SampleFiles files = store_->read(sample, wanted);
    note(sample, {});  // also if a batch is made again
    return files;
  } catch (const Error& error) {
    if (!is_of_the_file(error)) throw_of_the_machine(error);
    note(sample, {height_, width_, error.what()});
    return {};
  }
}

Image ListedPictures::decode_picture(const Sample& sample, const SampleFiles& files) const {
  if (!is_bad(sample)) {
    try {
      Image picture = store_->decode_picture(sample, files);
      note(sample, {picture.height, picture.width, "", is_off_range(picture)});
      return picture;
    } catch (const Error& error) {
      if (!is_of_the_file(error)) throw_of_the_machine(error);
      note(sample, {height_, width_, error.what()});
    }
  }
  return {height_, width_, 1, 8, std::vector<uint8_t>(static_cast<size_t>(height_ * width_), 0), {}};
}

Image ListedPictures::decode_mask(const Dataset&, const Sample&, const SampleFiles&) const {
  throw InternalError("listed pictures have no masks");
}

std::string ListedPictures::manifest_text(const Sample& sample) const {
  return unless_unread([&] { return store_->manifest_text(sample); });
}

std::string ListedPictures::stamp(const Sample& sample) const {
  return unless_unread([&] { return store_->stamp(sample); });
}

}  // namespace dtrain
