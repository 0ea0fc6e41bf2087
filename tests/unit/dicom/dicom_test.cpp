// DICOM files are put together element by element, explicit VR, little endian.
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"
#include "unit/io/picture_damage.hpp"
#include "unit/io/temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;
using test::holds;

namespace {

constexpr int kWidth = 4;
constexpr int kHeight = 2;

std::string little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

/// One element: group and number, VR and value.
std::string element(uint32_t tag, const std::string& vr, std::string value) {
  if (value.size() % 2 == 1) value += vr == "UI" || vr == "OB" ? '\0' : ' ';
  std::string out = little(tag >> 16, 2) + little(tag & 0xFFFF, 2) + vr;
  const bool wide = vr == "OB" || vr == "OW" || vr == "OF";
  out += wide ? std::string(2, '\0') + little(value.size(), 4) : little(value.size(), 2);
  return out + value;
}

/// The data elements, by tag.
struct Elements {
  std::map<uint32_t, std::string> by_tag;

  Elements& text(uint32_t tag, const std::string& vr, const std::string& value) {
    by_tag[tag] = element(tag, vr, value);
    return *this;
  }
  Elements& number(uint32_t tag, int value) { return text(tag, "US", little(static_cast<uint64_t>(value), 2)); }
  Elements& without(uint32_t tag) {
    by_tag.erase(tag);
    return *this;
  }
};

constexpr uint32_t kFrames = 0x00280008;
constexpr uint32_t kMeaning = 0x00280004;
constexpr uint32_t kCenter = 0x00281050;
constexpr uint32_t kWidthOfWindow = 0x00281051;
constexpr uint32_t kPixels = 0x7FE00010;

/// A grey picture of `bits` stored bits, or with 3 samples an RGB picture of 8.
Elements picture(const std::vector<int>& pixels, int bits, int samples = 1,
                 const std::string& meaning = "MONOCHROME2") {
  const int bytes = bits > 8 ? 2 : 1;
  std::string raw;
  for (const int pixel : pixels) raw += little(static_cast<uint64_t>(pixel), bytes);
  Elements all;
  all.text(0x00080016, "UI", "1.2.840.10008.5.1.4.1.1.7");
  all.text(0x00080018, "UI", "1.2.3.4");
  all.number(0x00280002, samples).text(kMeaning, "CS", meaning);
  if (samples == 3) all.number(0x00280006, 0);
  all.number(0x00280010, kHeight).number(0x00280011, kWidth);
  all.number(0x00280100, 8 * bytes).number(0x00280101, bits).number(0x00280102, bits - 1).number(0x00280103, 0);
  return all.text(kPixels, bytes == 2 ? "OW" : "OB", raw);
}

std::string file_of(const Elements& elements, const std::string& syntax = "1.2.840.10008.1.2.1") {
  const std::string meta =
      element(0x00020001, "OB", std::string("\0\1", 2)) + element(0x00020002, "UI", "1.2.840.10008.5.1.4.1.1.7") +
      element(0x00020003, "UI", "1.2.3.4") + element(0x00020010, "UI", syntax) + element(0x00020012, "UI", "1.2.3");
  std::string out(128, '\0');
  out += "DICM" + element(0x00020000, "UL", little(meta.size(), 4)) + meta;
  for (const auto& [tag, text] : elements.by_tag) out += text;
  return out;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Image decoded(const Elements& elements) { return decode_image(bytes_of(file_of(elements)), "a.dcm"); }

std::string refusal(const std::string& file) {
  return error_of<DataError>([&] { decode_image(bytes_of(file), "a.dcm"); });
}

const std::vector<int> kDepth12 = {0, 1000, 2000, 4095, 100, 200, 300, 400};
const std::vector<int> kDepth8 = {0, 50, 100, 255, 10, 20, 30, 40};

}  // namespace

TEST_CASE("grey DICOM is spread from its darkest to its brightest pixel, or by its window") {
  const Image deep = decoded(picture(kDepth12, 12));
  CHECK(deep.bits == 16);
  CHECK(deep.height == kHeight);
  CHECK(deep.width == kWidth);
  CHECK(deep.channels == 1);
  REQUIRE(deep.words.size() == kDepth12.size());
  for (size_t i = 0; i < kDepth12.size(); ++i) {
    INFO(i);
    CHECK(std::abs(deep.words[i] - kDepth12[i] * 65535.0 / 4095) <= 16.0);
  }
  const Image flat = decoded(picture(kDepth8, 8));
  CHECK(flat.bits == 8);
  CHECK(flat.bytes == std::vector<uint8_t>(kDepth8.begin(), kDepth8.end()));

  // PS3.3 C.11.2.1.2: from centre - 0.5 - (width - 1)/2 to centre - 0.5 + (width - 1)/2
  Elements narrow = picture(kDepth12, 12);
  narrow.text(kCenter, "DS", "1000").text(kWidthOfWindow, "DS", "1001");
  const Image windowed = decoded(narrow);
  CHECK(windowed.words[0] == 0);
  CHECK(windowed.words[3] == 65535);
  CHECK(std::abs(windowed.words[1] - 32800.0) < 100);
}

TEST_CASE("MONOCHROME1 is inverted, and colour is RGB") {
  const Image inverted = decoded(picture(kDepth8, 8, 1, "MONOCHROME1"));
  for (size_t i = 0; i < kDepth8.size(); ++i) CHECK(inverted.bytes[i] == 255 - kDepth8[i]);
  std::vector<int> rgb;
  for (int i = 0; i < 3 * kWidth * kHeight; ++i) rgb.push_back(10 * i);
  const Image colour = decoded(picture(rgb, 8, 3, "RGB"));
  CHECK(colour.channels == 3);
  CHECK(colour.bytes == std::vector<uint8_t>(rgb.begin(), rgb.end()));
}

TEST_CASE("a DICOM file without its first 132 bytes is told by its name") {
  std::string bare;
  for (const auto& [tag, text] : picture(kDepth8, 8).by_tag) bare += text;
  CHECK(decode_image(bytes_of(bare), "scan.DCM").bytes[3] == 255);
  CHECK(error_of<DataError>([&] { decode_image(bytes_of(bare), "scan"); }).find("is none of them") !=
        std::string::npos);
}

TEST_CASE("each frame of a DICOM file is a picture of its own, and is read without the others") {
  const dtrain::test::TempFolder folder;
  const std::string path = folder.file("loop.dcm");
  std::vector<int> both = kDepth12;
  both.insert(both.end(), kDepth12.rbegin(), kDepth12.rend());
  Elements loop = picture(both, 12);
  loop.text(kFrames, "IS", "2").text(kCenter, "DS", "1000").text(kWidthOfWindow, "DS", "1001");
  // Per-frame groups in sequences of undefined length, as enhanced files have them; they go.
  loop.by_tag[0x52009230] = little(0x5200, 2) + little(0x9230, 2) + "SQ" + little(0, 2) + little(0xFFFFFFFF, 4) +
                            little(0xE000FFFE, 4) + little(0xFFFFFFFF, 4) + element(0x00209157, "UL", "abcd") +
                            little(0xE00DFFFE, 4) + little(0, 4) + little(0xE0DDFFFE, 4) + little(0, 4);
  write_file_atomically(path, file_of(loop));
  REQUIRE(count_pages(path) == 2);
  Elements alone = picture(kDepth12, 12);
  alone.text(kFrames, "IS", "1").text(kCenter, "DS", "1000").text(kWidthOfWindow, "DS", "1001");
  const std::vector<std::byte> first = read_picture_file(path + "#1");
  const std::string wanted = file_of(alone);
  CHECK(std::equal(first.begin(), first.end(), bytes_of(wanted).begin(), bytes_of(wanted).end()));
  Image last = decode_image(read_picture_file(path + "#2"), "2");
  std::reverse(last.words.begin(), last.words.end());
  CHECK(last.words == decoded(alone).words);
  CHECK(holds(error_of<DataError>([&] { read_picture_file(path + "#3"); }), "the file has 2 frames"));
  write_file_atomically(path, file_of(picture(kDepth12, 12)));
  CHECK(count_pages(path) == 1);
}

TEST_CASE("what is no single picture of whole numbers is refused by one sentence") {
  CHECK(holds(refusal(file_of(picture(kDepth8, 8).without(kPixels))), "PixelData is missing"));
  CHECK(holds(refusal(file_of(picture(kDepth8, 8).without(0x00280010))), "Rows is missing"));
  CHECK(holds(refusal(file_of(picture(kDepth8, 8).text(kFrames, "IS", "3"))), "3 frames"));
  CHECK(holds(refusal(file_of(picture({1, 2, 3, 4}, 8))), "end early: 4 bytes of 8"));
  CHECK(holds(refusal(file_of(picture(kDepth8, 8), "1.2.840.10008.1.2.4.90")), "a.dcm: DICOM"));
  Elements vast = picture(kDepth8, 8);
  vast.number(0x00280010, 65535).number(0x00280011, 65535);
  CHECK(holds(refusal(file_of(vast)), "allowed"));
  const std::string header = file_of(picture(kDepth12, 12));
  CHECK(read_image_header(bytes_of(header), "a.dcm").bits == 16);
}

TEST_CASE("damaged DICOM files are refused or decoded, never worse") {
  const test::MemoryWatch memory;
  test::check_damaged(file_of(picture(kDepth12, 12)), "a.dcm", 1000);
  CHECK(memory.grown_mb() < 256);
}
