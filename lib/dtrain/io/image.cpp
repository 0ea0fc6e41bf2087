#include "dtrain/io/image.hpp"

#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/codecs.hpp"

namespace dtrain {

namespace {

using namespace std::string_view_literals;

enum class FileType { png, jpeg };

/// What lies in data folders beside PNG and JPEG, so that a message can name it.
struct ForeignType {
  size_t offset;
  std::string_view magic;
  std::string_view title;
};

constexpr ForeignType kForeignTypes[] = {
    {0, "GIF8"sv, "a GIF picture"},
    {0, "II*\0"sv, "a TIFF picture"},
    {0, "MM\0*"sv, "a TIFF picture"},
    {0, "II+\0"sv, "a TIFF picture"},
    {0, "MM\0+"sv, "a TIFF picture"},
    {8, "WEBP"sv, "a WebP picture"},
    {128, "DICM"sv, "a DICOM file"},
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
    {0, "\x93NUMPY"sv, "a NumPy array"},
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
    {0, "P1\n"sv, "a PBM picture"},
    {0, "P2\n"sv, "a PGM picture"},
    {0, "P3\n"sv, "a PPM picture"},
    {0, "P4\n"sv, "a PBM picture"},
    {0, "P5\n"sv, "a PGM picture"},
    {0, "P6\n"sv, "a PPM picture"},
    {0, "BM"sv, "a BMP picture"},
};

std::string_view title_of(std::string_view bytes) {
  for (const ForeignType& type : kForeignTypes)
    if (bytes.size() >= type.offset && bytes.substr(type.offset).starts_with(type.magic)) return type.title;
  if (bytes.find_first_not_of('\0') == std::string_view::npos) return "filled with zero bytes";
  return "neither, by its first bytes, or its first bytes are damaged";
}

FileType type_of(std::span<const std::byte> file, const std::string& name) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (bytes.empty()) throw DataError(name + " is empty (0 bytes); a PNG or JPEG picture is expected");
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return FileType::png;
  if (bytes.starts_with("\xFF\xD8\xFF")) return FileType::jpeg;
  throw DataError(name + ": only PNG and JPEG pictures are read, and this is " + std::string(title_of(bytes)));
}

}  // namespace

Image decode_image(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return type_of(file, name) == FileType::png ? decode_png(file, name, limits) : decode_jpeg(file, name, limits);
}

ImageHeader read_image_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return type_of(file, name) == FileType::png ? read_png_header(file, name, limits)
                                              : read_jpeg_header(file, name, limits);
}

bool has_image_extension(const std::string& path) {
  const std::string lower = lower_case(path);
  return lower.ends_with(".png") || lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

void check_pixels(const ImageHeader& header, const std::string& name, const ImageLimits& limits) {
  const std::string size = with_commas(header.width) + " × " + with_commas(header.height) + " pixels";
  if (header.width < 1 || header.height < 1) throw DataError(name + ": a picture of " + size + " holds nothing");
  if (header.width > limits.max_pixels / header.height)
    throw DataError(name + ": " + size + " are more than the " + with_commas(limits.max_pixels) + " allowed");
}

Image allocate_image(const ImageHeader& header) {
  Image image{header.height, header.width, header.channels, header.bits, {}, {}};
  const auto samples = static_cast<size_t>(header.height * header.width * header.channels);
  if (header.bits == 16)
    image.words.resize(samples);
  else
    image.bytes.resize(samples);
  return image;
}

void check_encodable(const Image& image) {
  check(image.bits == 8 && (image.channels == 1 || image.channels == 3),
        "only 8-bit grey and RGB pictures are encoded");
  check(image.height > 0 && image.width > 0 &&
            image.bytes.size() == static_cast<size_t>(image.height * image.width * image.channels),
        "a picture to be encoded has all its samples");
}

}  // namespace dtrain
