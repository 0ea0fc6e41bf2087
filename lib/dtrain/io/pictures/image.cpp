#include "dtrain/io/pictures/image.hpp"

#include <algorithm>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

namespace {

using namespace std::string_view_literals;

/// A type of file that is read.
struct Format {
  Image (*decode)(std::span<const std::byte>, const std::string&, const ImageLimits&);
  ImageHeader (*read_header)(std::span<const std::byte>, const std::string&, const ImageLimits&);
};

constexpr Format kPng = {decode_png, read_png_header};
constexpr Format kJpeg = {decode_jpeg, read_jpeg_header};
constexpr Format kTiff = {decode_tiff, read_tiff_header};
constexpr Format kBmp = {decode_bmp, read_bmp_header};
constexpr Format kPnm = {decode_pnm, read_pnm_header};
constexpr Format kDicom = {decode_dicom, read_dicom_header};

/// What lies in data folders beside pictures that are read, so that a message can name it.
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
    {0, "PF\n"sv, "a PFM picture of floats"},
    {0, "Pf\n"sv, "a PFM picture of floats"},
};

std::string_view title_of(std::string_view bytes) {
  for (const ForeignType& type : kForeignTypes)
    if (bytes.size() >= type.offset && bytes.substr(type.offset).starts_with(type.magic)) return type.title;
  if (bytes.find_first_not_of('\0') == std::string_view::npos) return "filled with zero bytes";
  return "none of them, by its first bytes, or its first bytes are damaged";
}

bool is_tiff(std::string_view bytes) {
  return bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv) || bytes.starts_with("II+\0"sv) ||
         bytes.starts_with("MM\0+"sv);
}

bool is_pnm(std::string_view bytes) {
  if (bytes.size() < 3 || bytes[0] != 'P' || bytes[1] < '1' || bytes[1] > '7') return false;
  return bytes[2] == '\n' || (bytes[1] != '7' && " \t\r#"sv.find(bytes[2]) != std::string_view::npos);
}

// Before these four letters anything may stand, a TIFF's first bytes too.
bool is_dicom(std::string_view bytes) { return bytes.size() >= 132 && bytes.substr(128, 4) == "DICM"; }

// Old files lack the first 132 bytes.
bool has_dicom_name(const std::string& name) {
  const std::string lower = lower_case(name);
  return lower.ends_with(".dcm") || lower.ends_with(".dicom");
}

const Format& format_of(std::span<const std::byte> file, const std::string& name) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  if (bytes.empty()) throw DataError(name + " is empty (0 bytes); a picture is expected");
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return kPng;
  if (bytes.starts_with("\xFF\xD8\xFF")) return kJpeg;
  if (is_dicom(bytes)) return kDicom;
  if (is_tiff(bytes)) return kTiff;
  if (bytes.starts_with("BM")) return kBmp;
  if (is_pnm(bytes)) return kPnm;
  if (has_dicom_name(name)) return kDicom;
  throw DataError(name + ": only PNG, JPEG, TIFF, BMP, PNM and DICOM pictures are read, and this is " +
                  std::string(title_of(bytes)));
}

}  // namespace

// Where memory ends, the picture is told.
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
  const Format& format = format_of(file, name);
  return with_name(
      name, [&] { return &format == &kPng ? decode_png_mask(file, name, limits) : format.decode(file, name, limits); });
}

ImageHeader read_image_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return format_of(file, name).read_header(file, name, limits);
}

bool has_image_extension(const std::string& path) {
  static constexpr std::string_view kEndings[] = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp",  ".pbm",
                                                  ".pgm", ".ppm", ".pnm",  ".pam", ".dcm",  ".dicom"};
  const std::string lower = lower_case(path);
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return lower.ends_with(ending); });
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

void check_encodable(const Image& image) {
  check(image.bits == 8 && (image.channels == 1 || image.channels == 3),
        "only 8-bit grey and RGB pictures are encoded");
  check(image.height > 0 && image.width > 0 &&
            image.bytes.size() == static_cast<size_t>(image.height * image.width * image.channels),
        "a picture to be encoded has all its samples");
}

}  // namespace dtrain
