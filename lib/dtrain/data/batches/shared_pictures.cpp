#include "dtrain/data/batches/shared_pictures.hpp"

#include <cstring>

#include "dtrain/base/error.hpp"

namespace dtrain {

// The memory holds a Head, then for each sample the offset of its record (0: not kept), then the records, each a
// RecordHead, the pixels and the mask.
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct RecordHead {
  int64_t pixel_bytes = 0;
  int64_t mask_bytes = 0;
  int32_t height = 0;  // as decoded; 0 for raw pictures
  int32_t width = 0;
  int32_t channels = 0;
  int32_t bits = 0;  // 8 or 16; for raw pictures 8 or 32
};

constexpr int64_t kHeadBytes = 64;
static_assert(sizeof(RecordHead) <= kHeadBytes);

RecordHead record_head(const ImageHeader& picture, bool mask, const ImageOptions& image, bool may_be_raw) {
  const int64_t pixels = picture.height * picture.width;
  const PixelKind kind = pixel_kind(picture, image);
  RecordHead head{pixels * picture.channels * picture.bits / 8, mask ? pixels : 0,
                  static_cast<int32_t>(picture.height),         static_cast<int32_t>(picture.width),
                  static_cast<int32_t>(picture.channels),       picture.bits};
  const RecordHead raw{
      kind.picture_bytes(image), mask ? image.height * image.width : 0, 0, 0, static_cast<int32_t>(kind.channels),
      kind.bytes ? 8 : 32};
  const bool smaller = raw.pixel_bytes + raw.mask_bytes <= head.pixel_bytes + head.mask_bytes;
  return may_be_raw && smaller ? raw : head;
}

int64_t record_bytes(const RecordHead& head) {
  return aligned(kHeadBytes + aligned(head.pixel_bytes) + head.mask_bytes);
}

}  // namespace

struct SharedPictures::Head {
  std::atomic<int64_t> end{0};  // of the records, also of those that found no room
  std::atomic<int64_t> kept{0};
  std::atomic<int64_t> bytes{0};
  std::atomic<int32_t> full{0};
};

Image KeptPicture::decoded_picture() const {
  Image image{header.height, header.width, header.channels, header.bits, {}, {}};
  const auto values = static_cast<size_t>(header.height * header.width * header.channels);
  if (header.bits == 8) {
    const auto* first = reinterpret_cast<const uint8_t*>(pixels);
    image.bytes.assign(first, first + values);
  } else {
    image.words.resize(values);
    std::memcpy(image.words.data(), pixels, 2 * values);
  }
  return image;
}

Image KeptPicture::decoded_mask() const {
  return {header.height, header.width, 1, 8, {mask, mask + header.height * header.width}, {}};
}

SharedPictures::SharedPictures(int64_t samples, int64_t bytes, const ImageOptions& image, bool may_be_raw)
    : memory_(aligned(sizeof(Head)) + aligned(8 * samples) + aligned(bytes)),
      samples_(samples),
      image_(image),
      may_be_raw_(may_be_raw) {
  static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic_ref<int64_t>::is_always_lock_free);
  if (!memory_.reserve(0, first_place())) throw IoError("finds no memory left on this host");
  new (memory_.data()) Head();
  head().end = first_place();
}

SharedPictures::SharedPictures(const std::string& address, int64_t samples, const ImageOptions& image, bool may_be_raw)
    : memory_(address), samples_(samples), image_(image), may_be_raw_(may_be_raw) {
  check(memory_.size() >= first_place(), "processes that share pictures have the same data set");
}

SharedPictures::Head& SharedPictures::head() const { return *reinterpret_cast<Head*>(memory_.data()); }

int64_t SharedPictures::first_place() const { return aligned(sizeof(Head)) + aligned(8 * samples_); }

std::atomic_ref<int64_t> SharedPictures::place_of(int64_t sample) const {
  check(sample >= 0 && sample < samples_, "a picture is of the data set");
  return std::atomic_ref<int64_t>(*reinterpret_cast<int64_t*>(memory_.data() + aligned(sizeof(Head)) + 8 * sample));
}

std::optional<KeptPicture> SharedPictures::find(int64_t sample) const {
  const int64_t place = place_of(sample).load(std::memory_order_acquire);
  if (place == 0) return std::nullopt;
  const std::byte* record = memory_.data() + place;
  RecordHead head;
  std::memcpy(&head, record, sizeof head);
  KeptPicture kept;
  kept.raw = head.height == 0;
  kept.kind = {head.bits == 8, head.channels};
  kept.header = {head.height, head.width, head.channels, head.bits};
  kept.pixels = record + kHeadBytes;
  if (head.mask_bytes > 0) kept.mask = reinterpret_cast<const uint8_t*>(kept.pixels + aligned(head.pixel_bytes));
  return kept;
}

bool SharedPictures::keep(int64_t sample, const Image& picture, const Image& mask) {
  if (place_of(sample).load(std::memory_order_relaxed) != 0) return true;
  if (full()) return false;
  const RecordHead record = record_head({picture.height, picture.width, picture.channels, picture.bits},
                                        mask.height > 0, image_, may_be_raw_);
  const int64_t bytes = record_bytes(record);
  const int64_t place = head().end.fetch_add(bytes);
  if (place > memory_.size() - bytes || !draw_.may_take(bytes) || !memory_.reserve(place, bytes)) {
    head().full = 1;
    return false;
  }
  std::byte* out = memory_.data() + place;
  std::memcpy(out, &record, sizeof record);
  std::byte* pixels = out + kHeadBytes;
  auto* mask_out = reinterpret_cast<uint8_t*>(pixels + aligned(record.pixel_bytes));
  const bool raw = record.height == 0;
  if (raw) {
    raw_image(picture, image_, {record.bits == 8, record.channels}, {pixels, static_cast<size_t>(record.pixel_bytes)});
    if (record.mask_bytes > 0)
      raw_mask(mask, image_, 255, {mask_out, static_cast<size_t>(record.mask_bytes)});  // classes are checked when used
  } else {
    const void* from = picture.bits == 8 ? static_cast<const void*>(picture.bytes.data()) : picture.words.data();
    std::memcpy(pixels, from, static_cast<size_t>(record.pixel_bytes));
    if (record.mask_bytes > 0) std::memcpy(mask_out, mask.bytes.data(), static_cast<size_t>(record.mask_bytes));
  }
  int64_t nowhere = 0;
  if (!place_of(sample).compare_exchange_strong(nowhere, place, std::memory_order_release)) return true;  // kept before
  head().kept.fetch_add(1);
  head().bytes.fetch_add(bytes);
  return true;
}

int64_t SharedPictures::kept() const { return head().kept.load(); }
double SharedPictures::megabytes() const { return static_cast<double>(head().bytes.load()) / 1e6; }
bool SharedPictures::full() const { return head().full.load() != 0; }

int64_t SharedPictures::bytes_of(const ImageHeader& picture, bool mask, const ImageOptions& image, bool may_be_raw) {
  return record_bytes(record_head(picture, mask, image, may_be_raw));
}

}  // namespace dtrain
