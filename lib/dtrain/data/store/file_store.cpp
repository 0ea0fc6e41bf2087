#include "dtrain/data/store/file_store.hpp"

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

static StoredFile own_picture(const Sample& sample) { return {sample.path, sample.place, false}; }

static StoredFile own_mask(const Sample& sample, size_t mask) {
  return {sample.masks[mask], sample.mask_places.empty() ? RecordPlace{} : sample.mask_places[mask], true};
}

SampleFiles PictureFiles::read(const Sample& sample, Wanted wanted) const {
  SampleFiles files;
  if (wanted != Wanted::masks) {
    const std::vector<StoredFile> channels = channels_of(sample);
    if (channels.size() == 1) files.picture = bytes_of(channels.front());
    if (channels.size() > 1)
      for (const StoredFile& channel : channels) files.channels.push_back(bytes_of(channel));
  }
  for (size_t i = 0; i < sample.masks.size() && wanted != Wanted::picture; ++i)
    files.masks.push_back(bytes_of(own_mask(sample, i)));
  return files;
}

std::vector<StoredFile> PictureFiles::channels_of(const Sample& sample) const { return {own_picture(sample)}; }

static std::string size_text(const Image& image) {
  return std::to_string(image.height) + " × " + std::to_string(image.width);
}

// --- pictures of several channels

// A grey picture whose file has three equal channels is one of one channel.
template <typename Value>
static bool take_grey(std::vector<Value>& values) {
  for (size_t i = 0; i < values.size() / 3; ++i) {
    if (values[3 * i] != values[3 * i + 1] || values[3 * i] != values[3 * i + 2]) return false;
    values[i] = values[3 * i];
  }
  values.resize(values.size() / 3);
  return true;
}

static void require_grey(Image& channel, const std::string& name) {
  if (channel.channels == 1) return;
  if (!take_grey(channel.bytes) || !take_grey(channel.words))
    throw DataError(name +
                    " is coloured, but by data.image.files or .slices it is one grey channel of a picture; save " +
                    "it in grey, or leave the key out");
  channel.channels = 1;
}

template <typename Value>
static void put_channel(const std::vector<Value>& from, size_t channel, size_t channels, std::vector<Value>& to) {
  to.resize(from.size() * channels);
  for (size_t i = 0; i < from.size(); ++i) to[i * channels + channel] = from[i];
}

Image PictureFiles::decode_picture(const Sample& sample, const SampleFiles& files) const {
  if (files.channels.empty()) return decode_image(files.picture, picture_name(sample));
  const std::vector<StoredFile> channels = channels_of(sample);
  Image merged;
  for (size_t i = 0; i < channels.size(); ++i) {
    Image channel = decode_image(files.channels[i], name_of(channels[i]));
    require_grey(channel, name_of(channels[i]));
    if (i == 0) merged = {channel.height, channel.width, static_cast<int64_t>(channels.size()), channel.bits, {}, {}};
    if (channel.height != merged.height || channel.width != merged.width || channel.bits != merged.bits)
      throw DataError("the channels '" + channels[0].path + "' (" + size_text(merged) + ", " +
                      std::to_string(merged.bits) + " bits) and '" + channels[i].path + "' (" + size_text(channel) +
                      ", " + std::to_string(channel.bits) +
                      " bits) of one picture differ; make them again of one size and depth");
    put_channel(channel.bytes, i, channels.size(), merged.bytes);
    put_channel(channel.words, i, channels.size(), merged.words);
  }
  return merged;
}

// The class of each pixel value.
static std::vector<uint8_t> class_table(const Dataset& dataset, int bits) {
  std::vector<uint8_t> table(size_t{1} << bits, 0);
  for (const auto& [value, number] : dataset.mask_values)
    if (value >= 0 && value < static_cast<int64_t>(table.size()))
      table[static_cast<size_t>(value)] = static_cast<uint8_t>(number);
  return table;
}

template <typename Value>
static void add_classes(const std::vector<Value>& values, int64_t channels, const std::vector<uint8_t>& table,
                        const std::string& path, std::vector<uint8_t>& out) {
  const auto stride = static_cast<size_t>(channels);
  for (size_t pixel = 0; pixel < out.size(); ++pixel) {
    const Value value = values[pixel * stride];
    for (size_t c = 1; c < stride; ++c)
      if (values[pixel * stride + c] != value)
        throw DataError("the mask '" + path +
                        "' is coloured; a mask must be grey, or a PNG with a palette, its values or the indices into "
                        "the palette as in mask_values");
    if (const uint8_t found = table[value]; found != 0) out[pixel] = found;
  }
}

Image PictureFiles::decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& files) const {
  Image united;
  united.channels = 1;
  for (size_t i = 0; i < sample.masks.size(); ++i) {
    const std::string& path = sample.masks[i];
    const Image mask = decode_mask_image(files.masks[i], name_of(own_mask(sample, i)));
    if (united.height == 0) {
      united.height = mask.height;
      united.width = mask.width;
      united.bytes.assign(static_cast<size_t>(mask.height * mask.width), 0);
    }
    if (mask.height != united.height || mask.width != united.width)
      throw DataError("the masks '" + sample.masks[0] + "' (" + size_text(united) + ") and '" + path + "' (" +
                      size_text(mask) + ") of '" + sample.path + "' differ in size; make them again at one size");
    const std::vector<uint8_t> table = class_table(dataset, mask.bits);
    if (mask.bits == 8) add_classes(mask.bytes, mask.channels, table, path, united.bytes);
    if (mask.bits == 16) add_classes(mask.words, mask.channels, table, path, united.bytes);
  }
  return united;
}

std::vector<Image> PictureFiles::raw_masks(const Sample& sample, const SampleFiles& files) const {
  std::vector<Image> masks;
  for (size_t i = 0; i < files.masks.size(); ++i)
    masks.push_back(decode_mask_image(files.masks[i], name_of(own_mask(sample, i))));
  return masks;
}

ImageHeader PictureFiles::header(const Sample& sample) const {
  const std::vector<StoredFile> channels = channels_of(sample);
  ImageHeader picture = header_of(channels.front());
  if (channels.size() > 1) picture.channels = static_cast<int64_t>(channels.size());
  for (size_t i = 1; i < channels.size(); ++i) {
    const ImageHeader other = header_of(channels[i]);
    if (other.height != picture.height || other.width != picture.width)
      throw DataError("the channels '" + channels[0].path + "' (" + std::to_string(picture.height) + " × " +
                      std::to_string(picture.width) + ") and '" + channels[i].path + "' (" +
                      std::to_string(other.height) + " × " + std::to_string(other.width) +
                      ") of one picture differ in size; make them again at one size");
  }
  for (size_t i = 0; i < sample.masks.size(); ++i) {
    const ImageHeader mask = header_of(own_mask(sample, i));
    if (mask.height != picture.height || mask.width != picture.width)
      throw DataError(sample.path + " is " + std::to_string(picture.height) + "x" + std::to_string(picture.width) +
                      ", but its mask " + sample.masks[i] + " is " + std::to_string(mask.height) + "x" +
                      std::to_string(mask.width));
  }
  return picture;
}

std::string PictureFiles::picture_name(const Sample& sample) const { return name_of(own_picture(sample)); }

std::string PictureFiles::manifest_text(const Sample& sample) const {
  constexpr char kEnd = '\0';
  std::string text = size_of(own_picture(sample)) + kEnd;
  for (const StoredFile& channel : channels_of(sample))
    if (picture_path(channel.path).file != picture_path(sample.path).file)
      text += channel.path + kEnd + size_of(channel) + kEnd;
  for (size_t i = 0; i < sample.masks.size(); ++i) text += sample.masks[i] + kEnd + size_of(own_mask(sample, i)) + kEnd;
  return text;
}

// --- files of their own

std::string FileStore::name_of(const StoredFile& file) const {
  return (fs::path(root_) / file.path).lexically_normal().string();
}

std::vector<std::byte> FileStore::bytes_of(const StoredFile& file) const { return read_picture_file(name_of(file)); }

// The first bytes of a file are enough for its header, unless long profiles come before it.
ImageHeader FileStore::header_of(const StoredFile& file) const {
  const std::string path = name_of(file);
  if (picture_path(path).page > 0) return read_image_header(read_picture_file(path), path);
  try {
    return read_image_header(read_file_start(path, 1 << 16), path);
  } catch (const DataError&) {
    return read_image_header(read_file(path), path);
  }
}

std::vector<StoredFile> FileStore::channels_of(const Sample& sample) const {
  std::vector<StoredFile> channels;
  for (size_t i = 0; i < files_.count(); ++i) channels.push_back({files_.sibling(sample.path, i), {}, false});
  if (!channels.empty()) return channels;
  const PicturePath own = picture_path(sample.path);
  const int64_t last = slices_ > 1 && own.page > 0 ? pages_of(name_of({own.file, {}, false})) : 0;
  for (int64_t away = -(slices_ / 2); away <= slices_ / 2; ++away) {
    const int64_t page = std::clamp<int64_t>(own.page + away, 1, std::max<int64_t>(last, 1));
    channels.push_back({own.page > 0 && away != 0 ? own.file + "#" + std::to_string(page) : sample.path, {}, false});
  }
  return channels;
}

int64_t FileStore::pages_of(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  const auto known = pages_.find(file);
  return known != pages_.end() ? known->second : pages_.emplace(file, count_pages(file)).first->second;
}

std::string FileStore::manifest_head() const {
  if (files_.several()) return "files " + files_.text() + '\0';
  return slices_ > 1 ? "slices " + std::to_string(slices_) + '\0' : "";
}

std::string FileStore::stamp(const Sample& sample) const {
  const auto changed = [&](const StoredFile& file) {
    return std::to_string(changed_at(picture_path(name_of(file)).file));
  };
  std::string stamps = changed(own_picture(sample));
  for (size_t i = 1; i < files_.count(); ++i) stamps += " " + changed({files_.sibling(sample.path, i), {}, false});
  return stamps;
}

std::string FileStore::size_of(const StoredFile& file) const {
  std::error_code error;
  const std::string whole = picture_path(name_of(file)).file;
  const auto bytes = fs::file_size(whole, error);
  if (error) throw_errno("read the size of", whole, error.value());
  return std::to_string(bytes);
}

}  // namespace dtrain
