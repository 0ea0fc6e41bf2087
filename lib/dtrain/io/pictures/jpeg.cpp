// jpeglib.h needs FILE and size_t to be declared before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstdlib>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

namespace {

/// With more scans a small file can take minutes to decode; no encoder writes more than about a dozen.
constexpr int kMaxScans = 500;

/// libjpeg reports errors by longjmp: all calls go through guarded_jpeg().
struct ErrorTrap {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
  int code = 0;  // libjpeg's JERR_… or JWRN_…
  char message[JMSG_LENGTH_MAX] = "";
};

ErrorTrap& trap_of(j_common_ptr info) { return *static_cast<ErrorTrap*>(info->client_data); }

void on_jpeg_error(j_common_ptr info) {
  ErrorTrap& trap = trap_of(info);
  trap.code = info->err->msg_code;
  info->err->format_message(info, trap.message);
  std::longjmp(trap.jump, 1);
}

/// libjpeg continues after damage and fills the rest with grey; here a warning is an error, unless it is known not to
/// affect the pixels.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return;
    default:
      on_jpeg_error(info);
  }
}

void print_nothing(j_common_ptr) {}

void set_trap(j_common_ptr info, ErrorTrap& trap) {
  info->err = jpeg_std_error(&trap.manager);
  info->client_data = &trap;
  trap.manager.error_exit = on_jpeg_error;
  trap.manager.emit_message = on_message;
  trap.manager.output_message = print_nothing;
}

/// Runs `step`, which may call libjpeg; false if it jumped out. Neither `step` nor what it calls may own anything:
/// a jump runs no destructors.
template <typename Step>
[[gnu::noinline]] bool guarded_jpeg(ErrorTrap& trap, const Step& step) {
  if (setjmp(trap.jump) != 0) return false;
  step();
  return true;
}

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    std::snprintf(trap_of(info).message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
    std::longjmp(trap_of(info).jump, 1);
  }
}

struct JpegInput {
  ErrorTrap trap;
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};

  JpegInput() { set_trap(reinterpret_cast<j_common_ptr>(&info), trap); }
  ~JpegInput() { jpeg_destroy_decompress(&info); }
  JpegInput(const JpegInput&) = delete;
  JpegInput& operator=(const JpegInput&) = delete;
};

struct JpegOutput {
  ErrorTrap trap;
  jpeg_compress_struct info{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  JpegOutput() { set_trap(reinterpret_cast<j_common_ptr>(&info), trap); }
  ~JpegOutput() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
  JpegOutput(const JpegOutput&) = delete;
  JpegOutput& operator=(const JpegOutput&) = delete;
};

[[noreturn]] void refuse_jpeg_kind(const std::string& name, const std::string& kind) {
  throw DataError(name + " is " + kind +
                  "; only 8-bit baseline, extended and progressive JPEG are read: convert it first");
}

[[noreturn]] void refuse_jpeg(const JpegInput& input, const std::string& name) {
  const int detail = input.trap.manager.msg_parm.i[0];
  if (input.trap.code == JERR_BAD_PRECISION) refuse_jpeg_kind(name, "a JPEG of " + std::to_string(detail) + " bits");
  if (input.trap.code == JERR_SOF_UNSUPPORTED) {
    const bool lossless = (detail & 3) == 3;  // SOF3, 7, 11, 15
    refuse_jpeg_kind(name, lossless ? "a lossless JPEG" : "a hierarchical JPEG");
  }
  throw DataError(name + " is a damaged JPEG: " + input.trap.message);
}

/// Reads and checks the file's header; `input` is then before the first scan.
ImageHeader begin_jpeg(JpegInput& input, std::span<const std::byte> file, const std::string& name,
                       const ImageLimits& limits) {
  jpeg_decompress_struct& info = input.info;
  const bool read = guarded_jpeg(input.trap, [&] {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
  });
  if (!read) refuse_jpeg(input, name);
  if (info.data_precision != 8) refuse_jpeg_kind(name, "a JPEG of " + std::to_string(info.data_precision) + " bits");
  if (info.arith_code) refuse_jpeg_kind(name, "an arithmetic-coded JPEG");
  if (info.num_components != 1 && info.num_components != 3 && info.num_components != 4)
    refuse_jpeg_kind(name, "a JPEG of " + std::to_string(info.num_components) + " channels");
  ImageHeader header;
  header.height = info.image_height;
  header.width = info.image_width;
  header.channels = info.num_components == 1 ? 1 : 3;
  check_pixels(header, name, limits);
  return header;
}

J_COLOR_SPACE output_space(const jpeg_decompress_struct& info) {
  if (info.num_components == 1) return JCS_GRAYSCALE;
  return info.num_components == 3 ? JCS_RGB : JCS_CMYK;
}

/// One row of CMYK to RGB, `inverted`: 255 stands for no ink, as Adobe's programs store it.
void cmyk_to_rgb(const std::vector<uint8_t>& cmyk, bool inverted, uint8_t* rgb) {
  for (size_t at = 0; at < cmyk.size(); at += 4)
    for (size_t c = 0; c < 3; ++c) {
      const unsigned light = inverted ? cmyk[at + c] : 255u - cmyk[at + c];
      const unsigned key = inverted ? cmyk[at + 3] : 255u - cmyk[at + 3];
      *rgb++ = static_cast<uint8_t>((light * key + 127) / 255);
    }
}

ImageHeader read_jpeg_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  JpegInput input;
  return begin_jpeg(input, file, name, limits);
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  JpegInput input;
  const ImageHeader header = begin_jpeg(input, file, name, limits);
  Image image = allocate_image(header);
  jpeg_decompress_struct& info = input.info;
  const bool cmyk = info.num_components == 4;
  const auto row_bytes = static_cast<size_t>(header.width * header.channels);
  std::vector<uint8_t> inks(cmyk ? static_cast<size_t>(header.width) * 4 : 0);
  const bool whole = guarded_jpeg(input.trap, [&] {
    info.out_color_space = output_space(info);
    info.dct_method = JDCT_ISLOW;  // the accurate one: the same bits with and without SIMD
    input.progress.progress_monitor = limit_scans;
    info.progress = &input.progress;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      uint8_t* row = image.bytes.data() + info.output_scanline * row_bytes;
      JSAMPROW target = cmyk ? inks.data() : row;
      jpeg_read_scanlines(&info, &target, 1);
      if (cmyk) cmyk_to_rgb(inks, info.saw_Adobe_marker, row);
    }
    jpeg_finish_decompress(&info);
  });
  if (!whole) refuse_jpeg(input, name);
  return image;
}

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  check_encodable(image);
  check(quality >= 1 && quality <= 100, "JPEG quality is 1 to 100");
  JpegOutput output;
  jpeg_compress_struct& info = output.info;
  const auto row_bytes = static_cast<size_t>(image.width * image.channels);
  const bool whole = guarded_jpeg(output.trap, [&] {
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &output.bytes, &output.size);
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = static_cast<int>(image.channels);
    info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      auto* row = const_cast<JSAMPLE*>(image.bytes.data() + info.next_scanline * row_bytes);
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  });
  check(whole, std::string("libjpeg encodes a picture: ") + output.trap.message);
  const auto* bytes = reinterpret_cast<const std::byte*>(output.bytes);
  return {bytes, bytes + output.size};
}

/// Baseline, extended 8-bit, progressive; grey, YCbCr, RGB; CMYK and YCCK, which become RGB as (1 − C)(1 − K), without
/// a colour profile; with an Adobe marker their values are taken as inverted, since Adobe's programs write them so.
/// EXIF orientation is not applied.
extern const PictureFormat kJpeg = {
    .name = "JPEG",
    .endings = {".jpg", ".jpeg"},
    .begins = [](std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); },
    .decode = decode_jpeg,
    .read_header = read_jpeg_header,
    .exact = false,
};

}  // namespace dtrain
