#include "dtrain/io/pictures/image.hpp"

#include <algorithm>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/rows.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

// Each is defined at the end of its own file.
extern const PictureFormat kPng, kJpeg, kDicom, kTiff, kBmp, kPnm, kNpy;

namespace {

using namespace std::string_view_literals;

/// In the order in which a file's first bytes are checked. DICOM comes before TIFF, since a DICOM file may begin with
/// anything, even with a TIFF header.
const RowList<PictureFormat>& picture_formats() {
  static const RowList<PictureFormat> all = {&kPng, &kJpeg, &kDicom, &kTiff, &kBmp, &kPnm, &kNpy};
  return all;
}

/// File types found in data folders that are not read, so that a message can name them.
struct ForeignType {
  size_t offset;
  std::string_view magic;
  std::string_view title;
};

constexpr ForeignType kForeignTypes[] = {
    {0, "GIF8"sv, "a GIF picture"},
    {8, "WEBP"sv, "a WebP picture"},
    {0, "\0\0\0\x0CjP  "sv, "a JPEG 2000 picture"},
    {0, "\xFF\x4F\xFF\x51"sv, "a JPEG 2000 picture"},
    {0, "\xFF\x0A"sv, "a JPEG XL picture"},
    {0, "\0\0\0\x0CJXL "sv, "a JPEG XL picture"},
    {4, "ftyp"sv, "a HEIF, AVIF or MP4 file"},
    {0, "\x8AMNG"sv, "an MNG animation"},
    {0, "8BPS"sv, "a Photoshop file"},
    {0, "DDS "sv, "a DDS texture"},
    {0, "qoif"sv, "a QOI picture"},
    {0, "SIMPLE  ="sv, "a FITS file"},
    {0, "\x89HDF"sv, "an HDF5 file"},
    {344, "n+1\0"sv, "a NIfTI volume"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "PK\x03\x04"sv, "a ZIP archive"},
    {0, "\x1F\x8B"sv, "a gzip file"},
    {0, "version https://git-lfs"sv, "a Git LFS pointer, not the file itself (run git lfs pull)"},
    {0, "<!DOCTYPE"sv, "an HTML page, perhaps of a failed download"},
    {0, "<html"sv, "an HTML page, perhaps of a failed download"},
    {0, "<?xml"sv, "an XML or SVG file"},
    {0, "<svg"sv, "an SVG drawing"},
    {0, "PF\n"sv, "a PFM picture of floats"},
    {0, "Pf\n"sv, "a PFM picture of floats"},
};

std::string_view title_of(std::string_view bytes) {
  for (const ForeignType& type : kForeignTypes)
    if (bytes.size() >= type.offset && bytes.substr(type.offset).starts_with(type.magic)) return type.title;
  if (bytes.find_first_not_of('\0') == std::string_view::npos) return "filled with zero bytes";
  return "none of them, by its first bytes, or its first bytes are damaged";
}

template <typename Test>
const PictureFormat* first_format(const Test& test) {
  const auto found =
      std::ranges::find_if(picture_formats(), [&](const PictureFormat* format) { return test(*format); });
  return found == picture_formats().end() ? nullptr : *found;
}

/// By the ending of a file's name; null if no picture has that ending.
const PictureFormat* format_by_name(const std::string& path) {
  const std::string lower = lower_case(path);
  return first_format([&](const PictureFormat& format) {
    return std::ranges::any_of(format.endings, [&](const std::string& ending) { return lower.ends_with(ending); });
  });
}

const PictureFormat& format_of(std::span<const std::byte> file, const std::string& name) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (bytes.empty()) throw DataError(name + " is empty (0 bytes); a picture is expected");
  if (const auto* format = first_format([&](const PictureFormat& one) { return one.begins(bytes); })) return *format;
  if (const PictureFormat* format = format_by_name(name); format != nullptr && format->bare) return *format;
  const auto all = names_where(picture_formats(), [](const PictureFormat&) { return true; });
  throw DataError(name + ": only " + join_last(all, "and") + " pictures are read, and this is " +
                  std::string(title_of(bytes)));
}

}  // namespace

// If memory runs out, the error names the picture.
template <typename Decode>
static Image with_name(const std::string& name, const Decode& decode) {
  try {
    return decode();
  } catch (const Error& error) {
    if (error.code() != exit_code::kOutOfMemory) throw;
    throw Error(error.code(), name + ": " + error.what());
  }
}

Image decode_image(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return with_name(name, [&] { return format_of(file, name).decode(file, name, limits); });
}

Image decode_mask_image(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  const PictureFormat& format = format_of(file, name);
  const PictureFormat::Decode decode = format.decode_mask != nullptr ? format.decode_mask : format.decode;
  return with_name(name, [&] { return decode(file, name, limits); });
}

ImageHeader read_image_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return format_of(file, name).read_header(file, name, limits);
}

bool has_image_extension(const std::string& path) { return format_by_name(path) != nullptr; }

std::string inexact_format(const std::string& path) {
  const PictureFormat* format = format_by_name(path);
  return format != nullptr && !format->exact ? format->name : "";
}

std::string foreign_image_extension(const std::string& path) {
  static constexpr std::string_view kEndings[] = {".gif",  ".webp", ".jp2", ".j2k", ".jpx",    ".jpf", ".heic",
                                                  ".heif", ".avif", ".jxl", ".nii", ".nii.gz", ".mha", ".mhd",
                                                  ".nrrd", ".svs",  ".czi", ".nd2", ".lif",    ".exr", ".tga"};
  const std::string lower = lower_case(path);
  for (const std::string_view ending : kEndings)
    if (lower.ends_with(ending)) return std::string(ending);
  return "";
}

void check_pixels(const ImageHeader& header, const std::string& name, const ImageLimits& limits) {
  const std::string size = with_commas(header.width) + " × " + with_commas(header.height) + " pixels";
  if (header.width < 1 || header.height < 1) throw DataError(name + ": a picture of " + size + " holds nothing");
  if (header.width > limits.max_pixels / header.height)
    throw DataError(name + ": " + size + " are more than the " + with_commas(limits.max_pixels) + " allowed");
}

Image allocate_image(const ImageHeader& header) {
  constexpr size_t kLarge = size_t{64} << 20;
  Image image{header.height, header.width, header.channels, header.bits, {}, {}};
  const auto samples = static_cast<size_t>(header.height * header.width * header.channels);
  if (samples > kLarge)
    MemoryDraw("a picture of " + with_commas(header.width) + " × " + with_commas(header.height) + " pixels",
               "leave it out or make it smaller")
        .take(static_cast<int64_t>(samples) * header.bits / 8);
  if (header.bits == 16)
    image.words.resize(samples);
  else
    image.bytes.resize(samples);
  return image;
}

void check_encodable(const Image& image, int most_bits) {
  check(
      (image.bits == 8 || image.bits == 16) && image.bits <= most_bits && (image.channels == 1 || image.channels == 3),
      "only grey and RGB pictures are encoded, of as many bits as the format has");
  check(image.height > 0 && image.width > 0 &&
            (image.bits == 16 ? image.words.size() : image.bytes.size()) ==
                static_cast<size_t>(image.height * image.width * image.channels),
        "a picture to be encoded has all its samples");
}

}  // namespace dtrain
