#include "dtrain/io/pictures/tiff_form.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

namespace {

[[noreturn]] void refuse_kind(const std::string& name, const std::string& kind) {
  throw DataError(name + " is a TIFF " + kind +
                  "; grey, RGB, YCbCr and palette of 1, 2, 4, 8 and 16 bits are read: convert it first");
}

void check_compression(uint16_t compression, const std::string& name) {
  switch (compression) {
    case COMPRESSION_NONE:
    case COMPRESSION_CCITTRLE:
    case COMPRESSION_CCITTFAX3:
    case COMPRESSION_CCITTFAX4:
    case COMPRESSION_LZW:
    case COMPRESSION_OJPEG:
    case COMPRESSION_JPEG:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
    case COMPRESSION_PACKBITS:
      return;
    default:
      const TIFFCodec* codec = TIFFFindCODEC(compression);
      throw DataError(name + " is a TIFF compressed by " +
                      (codec != nullptr ? codec->name : "scheme " + std::to_string(compression)) +
                      "; LZW, deflate, packbits, JPEG, CCITT and none are read: convert it first");
  }
}

void check_samples(TIFF* tiff, const TiffForm& form, const std::string& name) {
  const auto format = tiff_field<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (format == SAMPLEFORMAT_IEEEFP) refuse_kind(name, "of floats");
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) refuse_kind(name, "of signed or complex samples");
  if (form.samples > 8) refuse_kind(name, "of " + std::to_string(form.samples) + " channels");
  switch (form.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      if (form.samples > 2) refuse_kind(name, "of " + std::to_string(form.samples) + " grey channels");
      break;
    case PHOTOMETRIC_PALETTE:
      if (form.bits > 8) refuse_kind(name, "with a palette of " + std::to_string(form.bits) + " bits");
      break;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      if (form.samples < 3) refuse_damaged_tiff(name, "colour needs three samples a pixel");
      if (form.bits != 8 && (form.bits != 16 || form.photometric == PHOTOMETRIC_YCBCR))
        refuse_kind(name, "of " + std::to_string(form.bits) + "-bit colour");
      break;
    case PHOTOMETRIC_SEPARATED:
      refuse_kind(name, "of CMYK inks");
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB:
      refuse_kind(name, "of L*a*b* colours");
    default:
      refuse_kind(name, "of photometric interpretation " + std::to_string(form.photometric));
  }
  if (std::ranges::count(std::array{1, 2, 4, 8, 16}, form.bits) == 0)
    refuse_kind(name, "of " + std::to_string(form.bits) + " bits");
}

/// Refuses ImageJ's form of stacks above 4 GB: a TIFF of one picture, followed by the pixels of the others.
void check_description(TIFF* tiff, const std::string& name) {
  char* text = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) != 1 || text == nullptr) return;
  const char* images = std::strncmp(text, "ImageJ=", 7) == 0 ? std::strstr(text, "\nimages=") : nullptr;
  if (images != nullptr && std::atoll(images + 8) > 1)
    throw DataError(name + " is a stack of " + std::to_string(std::atoll(images + 8)) +
                    " pictures that only ImageJ knows of; save it with a directory for each (Bio-Formats, BigTIFF)");
}

}  // namespace

void refuse_damaged_tiff(const std::string& name, const std::string& why) {
  throw DataError(name + " is a damaged TIFF: " + why);
}

bool TiffForm::fax() const {
  return compression == COMPRESSION_CCITTRLE || compression == COMPRESSION_CCITTFAX3 ||
         compression == COMPRESSION_CCITTFAX4;
}

ImageHeader TiffForm::header() const {
  ImageHeader header{height, width, colours(), bits == 16 ? 16 : 8};
  if (photometric == PHOTOMETRIC_PALETTE) header.channels = 3;
  if (photometric == PHOTOMETRIC_PALETTE) header.bits = 8;
  if (turned()) std::swap(header.height, header.width);
  return header;
}

TiffForm read_tiff_form(TIFF* tiff, const std::string& name, const ImageLimits& limits) {
  TiffForm form;
  form.width = tiff_field<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0);
  form.height = tiff_field<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0);
  check_pixels({form.height, form.width, 1, 8}, name, limits);
  form.bits = tiff_field<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  form.samples = tiff_field<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  form.compression = tiff_field<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  form.planar = tiff_field<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  form.orientation = tiff_field<uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  if (form.orientation < 1 || form.orientation > 8) form.orientation = ORIENTATION_TOPLEFT;
  const bool fax = form.fax();  // libtiff's guess if the field is missing
  const uint16_t unnamed = form.samples >= 3 ? PHOTOMETRIC_RGB : fax ? PHOTOMETRIC_MINISWHITE : PHOTOMETRIC_MINISBLACK;
  form.photometric = tiff_field<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, unnamed);
  check_compression(form.compression, name);
  check_samples(tiff, form, name);
  check_description(tiff, name);
  const bool jpeg = form.compression == COMPRESSION_JPEG && form.planar == PLANARCONFIG_CONTIG;
  form.by_library = form.photometric == PHOTOMETRIC_YCBCR && !jpeg;
  if (form.photometric == PHOTOMETRIC_YCBCR && jpeg) TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  uint16_t extras = 0;
  uint16_t* kinds = nullptr;
  const bool has_more = form.photometric != PHOTOMETRIC_PALETTE && form.samples > form.colours();
  if (has_more && !form.by_library && TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds) == 1 && extras > 0)
    form.premultiplied = kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  return form;
}

}  // namespace dtrain
