#include "dtrain/data/store/listed_pictures.hpp"

#include <utility>

#include "dtrain/base/error.hpp"

namespace dtrain {

// Whether the file is at fault, and not a lack of memory or the program.
static bool is_of_the_file(const Error& error) {
  switch (error.code()) {
    case exit_code::kBadData:
    case exit_code::kMissingInput:
    case exit_code::kPermission:
    case exit_code::kIo:
      return true;
    default:
      return false;
  }
}

ListedPictures::ListedPictures(std::shared_ptr<const SampleStore> store, const ImageOptions& size)
    : store_(std::move(store)), height_(size.height), width_(size.width) {}

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
    if (!is_of_the_file(error)) throw;
    note(sample, {height_, width_, error.what()});
    return {};
  }
}

Image ListedPictures::decode_picture(const Sample& sample, const SampleFiles& files) const {
  if (!is_bad(sample)) {
    try {
      Image picture = store_->decode_picture(sample, files);
      note(sample, {picture.height, picture.width, ""});
      return picture;
    } catch (const Error& error) {
      if (!is_of_the_file(error)) throw;
      note(sample, {height_, width_, error.what()});
    }
  }
  return {height_, width_, 1, 8, std::vector<uint8_t>(static_cast<size_t>(height_ * width_), 0), {}};
}

Image ListedPictures::decode_mask(const Dataset&, const Sample&, const SampleFiles&) const {
  throw InternalError("listed pictures have no masks");
}

std::string ListedPictures::manifest_text(const Sample& sample) const {
  try {
    return store_->manifest_text(sample);
  } catch (const Error& error) {
    if (!is_of_the_file(error)) throw;
    return std::string(kUnread);
  }
}

}  // namespace dtrain
