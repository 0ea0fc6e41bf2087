// JPEG files of kinds that encode_jpeg() does not write are made with libjpeg's own writer.

// jpeglib.h needs FILE and size_t before it.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;

namespace {

constexpr int64_t kHeight = 45;
constexpr int64_t kWidth = 61;

/// A smooth picture, which JPEG keeps within a few levels.
Image smooth(int64_t channels) {
  Image image{kHeight, kWidth, channels, 8, {}, {}};
  for (int64_t y = 0; y < kHeight; ++y)
    for (int64_t x = 0; x < kWidth; ++x)
      for (int64_t c = 0; c < channels; ++c)
        image.bytes.push_back(static_cast<uint8_t>(128 + 100 * std::sin(0.05 * static_cast<double>((c + 1) * x)) *
                                                             std::cos(0.04 * static_cast<double>(y - 5 * c))));
  return image;
}

using Setting = std::function<void(jpeg_compress_struct&)>;

/// `image`, with samples in `space`, as libjpeg writes it after `set`.
std::vector<std::byte> make_jpeg(const Image& image, J_COLOR_SPACE space, const Setting& set) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  info.err = jpeg_std_error(&errors);
  errors.output_message = [](j_common_ptr) {};
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  set(info);
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < image.height; ++y) {
    auto* row = const_cast<JSAMPLE*>(image.bytes.data() + y * image.width * image.channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* begin = reinterpret_cast<std::byte*>(bytes);
  std::vector<std::byte> out(begin, begin + size);
  std::free(bytes);
  return out;
}

int largest_difference(const Image& a, const Image& b) {
  REQUIRE(a.bytes.size() == b.bytes.size());
  int largest = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) largest = std::max(largest, std::abs(a.bytes[i] - b.bytes[i]));
  return largest;
}

/// Position of the start-of-frame marker's second byte.
size_t frame_marker(const std::vector<std::byte>& file) {
  for (size_t at = 2; at + 4 < file.size();) {
    if (file[at + 1] == std::byte{0xC0}) return at + 1;
    at += 2 + (std::to_integer<size_t>(file[at + 2]) << 8 | std::to_integer<size_t>(file[at + 3]));
  }
  FAIL("no frame");
  return 0;
}

std::string jpeg_refusal(std::span<const std::byte> file) {
  return error_of<DataError>([&] { decode_image(file, "t.jpg"); });
}

}  // namespace

TEST_CASE("a picture written as JPEG comes back nearly the same") {
  for (int64_t channels : {1, 3}) {
    const Image image = smooth(channels);
    const auto file = encode_jpeg(image, 95);
    const Image back = decode_image(file, "t.jpg");
    CHECK((back.height == kHeight && back.width == kWidth && back.channels == channels && back.bits == 8));
    CHECK(largest_difference(image, back) <= (channels == 1 ? 4 : 24));
    const ImageHeader header = read_image_header(file, "t.jpg");
    CHECK((header.height == kHeight && header.width == kWidth && header.channels == channels && header.bits == 8));
    CHECK(encode_jpeg(image, 10).size() < encode_jpeg(image, 95).size());
  }
}

TEST_CASE("progressive, restarts, extended quantisation and other samplings are read") {
  const Image image = smooth(3);
  const std::pair<const char*, Setting> kinds[] = {
      {"progressive", [](auto& info) { jpeg_simple_progression(&info); }},
      {"restarts", [](auto& info) { info.restart_interval = 2; }},
      {"optimised", [](auto& info) { info.optimize_coding = TRUE; }},
      {"SOF1", [](auto& info) { info.quant_tbl_ptrs[0]->quantval[63] = 300; }},  // too large for baseline
      {"stored as RGB", [](auto& info) { jpeg_set_colorspace(&info, JCS_RGB); }},
      {"4:4:4", [](auto& info) { info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1; }},
      {"4:2:2", [](auto& info) { info.comp_info[0].v_samp_factor = 1; }},
  };
  for (const auto& [kind, set] : kinds) {
    INFO(kind);
    const Image back = decode_image(make_jpeg(image, JCS_RGB, set), "t.jpg");
    CHECK(back.channels == 3);
    CHECK(largest_difference(image, back) <= 24);
  }
}

TEST_CASE("CMYK and YCCK are turned into RGB, inverted where an Adobe marker says so") {
  Image inks{4, 4, 4, 8, {}, {}};
  for (int i = 0; i < 16; ++i) inks.bytes.insert(inks.bytes.end(), {200, 100, 50, 230});
  auto color_of = [&](const std::vector<std::byte>& file) {
    const Image image = decode_image(file, "t.jpg");
    REQUIRE(image.channels == 3);
    return std::vector<int>(image.bytes.begin(), image.bytes.begin() + 3);
  };
  auto near = [](const std::vector<int>& a, const std::vector<int>& b) {
    return std::abs(a[0] - b[0]) <= 2 && std::abs(a[1] - b[1]) <= 2 && std::abs(a[2] - b[2]) <= 2;
  };
  const std::vector<int> inverted = {200 * 230 / 255, 100 * 230 / 255, 50 * 230 / 255};
  const std::vector<int> straight = {55 * 25 / 255, 155 * 25 / 255, 205 * 25 / 255};
  const Setting plain = [](auto& info) { jpeg_set_colorspace(&info, JCS_CMYK); };
  const Setting unmarked = [](auto& info) {
    jpeg_set_colorspace(&info, JCS_CMYK);
    info.write_Adobe_marker = FALSE;
  };
  const Setting ycck = [](auto& info) { jpeg_set_colorspace(&info, JCS_YCCK); };
  CHECK(near(color_of(make_jpeg(inks, JCS_CMYK, plain)), inverted));
  CHECK(near(color_of(make_jpeg(inks, JCS_CMYK, ycck)), inverted));
  CHECK(near(color_of(make_jpeg(inks, JCS_CMYK, unmarked)), straight));
}

TEST_CASE("kinds of JPEG that are not read are refused by name") {
  const auto file = encode_jpeg(smooth(1));
  const size_t marker = frame_marker(file);
  auto changed = [&](size_t at, int value) {
    auto copy = file;
    copy[at] = static_cast<std::byte>(value);
    return copy;
  };
  CHECK(jpeg_refusal(changed(marker + 3, 12)).find("12 bits") != std::string::npos);
  CHECK(jpeg_refusal(changed(marker, 0xC9)).find("arithmetic-coded") != std::string::npos);
  CHECK(jpeg_refusal(changed(marker, 0xCA)).find("arithmetic-coded") != std::string::npos);
  CHECK(jpeg_refusal(changed(marker, 0xC3)).find("lossless") != std::string::npos);
  CHECK(jpeg_refusal(changed(marker, 0xC5)).find("hierarchical") != std::string::npos);
  const Image two{4, 4, 2, 8, std::vector<uint8_t>(32, 9), {}};
  CHECK(jpeg_refusal(make_jpeg(two, JCS_UNKNOWN, [](auto&) {})).find("2 channels") != std::string::npos);
}

TEST_CASE("a JPEG cut anywhere is refused") {
  for (bool progressive : {false, true}) {
    const auto file = make_jpeg(smooth(3), JCS_RGB, [&](auto& info) {
      if (progressive) jpeg_simple_progression(&info);
    });
    for (size_t length = 0; length < file.size(); ++length) {
      INFO(length << " of " << file.size());
      CHECK_FALSE(jpeg_refusal(std::span(file).first(length)).empty());
    }
  }
}

TEST_CASE("a damaged JPEG is decoded or refused, never worse, and refused where its data do not fit") {
  const auto file = encode_jpeg(smooth(3));
  int refused = 0;
  for (size_t at = 2; at < file.size(); ++at)
    for (int mask : {0x01, 0x80, 0xFF}) {
      auto damaged = file;
      damaged[at] ^= static_cast<std::byte>(mask);
      refused += !error_of<DataError>([&] { decode_image(damaged, "t.jpg", {1 << 20}); }).empty();
    }
  CHECK(refused > 0);
}

TEST_CASE("the pixel limit holds for JPEG before anything is decoded") {
  auto file = encode_jpeg(smooth(1));
  CHECK_THROWS_AS(read_image_header(file, "t.jpg", {kHeight * kWidth - 1}), DataError);
  CHECK_NOTHROW(decode_image(file, "t.jpg", {kHeight * kWidth}));
  const size_t marker = frame_marker(file);
  for (size_t i = 4; i < 8; ++i) file[marker + i] = std::byte{0xEA};
  CHECK(jpeg_refusal(file).find("60,138 × 60,138 pixels") != std::string::npos);
}

TEST_CASE("a JPEG of a thousand scans is refused before it costs minutes") {
  jpeg_scan_info scans[3] = {};
  for (int c = 0; c < 3; ++c) scans[c] = {1, {c, 0, 0, 0}, 0, 63, 0, 0};
  const auto file = make_jpeg(smooth(3), JCS_RGB, [&](auto& info) {
    info.scan_info = scans;
    info.num_scans = 3;
  });
  CHECK(decode_image(file, "t.jpg").channels == 3);
  // The last component's scan over and over: libjpeg itself would decode each.
  size_t last = 0;
  for (size_t at = 0; at + 1 < file.size(); ++at)
    if (file[at] == std::byte{0xFF} && file[at + 1] == std::byte{0xDA}) last = at;
  const std::span<const std::byte> scan = std::span(file).subspan(last, file.size() - 2 - last);
  auto repeated = [&](int times) {
    std::vector<std::byte> out(file.begin(), file.end() - 2);
    for (int i = 0; i < times; ++i) out.insert(out.end(), scan.begin(), scan.end());
    out.insert(out.end(), file.end() - 2, file.end());
    return out;
  };
  CHECK(jpeg_refusal(repeated(100)).empty());
  CHECK(jpeg_refusal(repeated(1000)).find("more than 500 scans") != std::string::npos);
}
