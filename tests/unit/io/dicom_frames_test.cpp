// Frames are cut out of DICOM files without DCMTK; tests/unit/dicom decodes them.
#include "dtrain/io/pictures/dicom_frames.hpp"

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;

namespace {

/// How elements are written: explicit VR little endian by default.
struct Writing {
  bool explicit_vr = true;
  bool big = false;
  std::string syntax = "1.2.840.10008.1.2.1";
};

std::string number(uint64_t value, int bytes, bool big) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * (big ? bytes - 1 - i : i));
  return out;
}

std::string element(uint32_t tag, const std::string& vr, const std::string& value, const Writing& how = {},
                    int64_t length = -1) {
  const auto size = static_cast<uint64_t>(length < 0 ? static_cast<int64_t>(value.size()) : length);
  std::string out = number(tag >> 16, 2, how.big) + number(tag & 0xFFFF, 2, how.big);
  if (!how.explicit_vr || vr.empty()) return out + number(size, 4, how.big) + value;
  const bool wide = vr == "OB" || vr == "OW" || vr == "SQ";
  return out + vr + (wide ? std::string(2, '\0') + number(size, 4, how.big) : number(size, 2, how.big)) + value;
}

std::string file(const std::string& rest, const Writing& how) {
  std::string syntax = how.syntax;
  if (syntax.size() % 2 == 1) syntax += '\0';
  return std::string(128, '\0') + "DICM" + element(0x00020010, "UI", syntax) + rest;
}

constexpr int64_t kUndefined = 0xFFFFFFFF;

/// Pictures of 2 × 3 pixels of 8 bits.
std::string header(const std::string& frames, const Writing& how = {}) {
  const auto count = [&](uint32_t tag, uint64_t value) { return element(tag, "US", number(value, 2, how.big), how); };
  // A sequence that holds another NumberOfFrames, which is not the file's.
  const std::string inner = element(0x00280008, "IS", "9 ", how) + element(0xFFFEE00D, "", "", how);
  const std::string sequence = element(0xFFFEE000, "", inner, how, kUndefined) + element(0xFFFEE0DD, "", "", how);
  return element(0x00081140, "SQ", sequence, how, kUndefined) + count(0x00280002, 1) +
         element(0x00280004, "CS", "MONOCHROME2 ", how) + element(0x00280008, "IS", frames, how) +
         count(0x00280010, 2) + count(0x00280011, 3) + count(0x00280100, 8);
}

std::string item(const std::string& bytes) { return element(0xFFFEE000, "", bytes); }

std::string compressed(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& bytes : items) all += item(bytes);
  return element(0x7FE00010, "OB", all + element(0xFFFEE0DD, "", ""), {}, kUndefined);
}

std::string frame(const std::string& text, int64_t which) {
  const MemorySource source(std::as_bytes(std::span(text)));
  const std::vector<std::byte> bytes = dicom_frame_alone(source, which, "f");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string frame_refusal(const std::string& text, int64_t which = 1) {
  return error_of<DataError>([&] { frame(text, which); });
}

int64_t frames_of(const std::string& text) { return count_dicom_frames(MemorySource(std::as_bytes(std::span(text)))); }

}  // namespace

TEST_CASE("a frame of plain pixels is cut out of a DICOM file in every way that elements are written") {
  for (const Writing& how :
       {Writing{}, Writing{false, false, "1.2.840.10008.1.2"}, Writing{true, true, "1.2.840.10008.1.2.2"}}) {
    const std::string whole = file(header("3 ", how) + element(0x7FE00010, "OB", "abcdefghijklmnopqr", how) +
                                       element(0xFFFCFFFC, "OB", "padding!", how),
                                   how);
    CHECK(frames_of(whole) == 3);
    CHECK(frame(whole, 2) == file(header("1 ", how) + element(0x7FE00010, "OB", "ghijkl", how), how));
    CHECK(frame_refusal(whole, 4) == "f: DICOM: the file has 3 frames");
  }
}

TEST_CASE("a frame of compressed pixels is its piece, or those that the table of offsets gives it") {
  const std::string one_each = file(header("2 ") + compressed({"", "aaaa", "bb"}), {});
  CHECK(frame(one_each, 2) == file(header("1 ") + compressed({"", "bb"}), {}));
  const std::string offsets = number(0, 4, false) + number(22, 4, false);  // behind two items of 4 and 2 bytes
  const std::string several = file(header("2 ") + compressed({offsets, "aaaa", "AA", "bb", "BBBB", "!!"}), {});
  CHECK(frame(several, 1) == file(header("1 ") + compressed({"", "aaaa", "AA"}), {}));
  CHECK(frame(several, 2) == file(header("1 ") + compressed({"", "bb", "BBBB", "!!"}), {}));
  const std::string untold = file(header("2 ") + compressed({"", "aaaa", "AA", "bb"}), {});
  CHECK(frame_refusal(untold).ends_with("does not tell where its compressed frames begin"));
}

TEST_CASE("damaged DICOM files have one page, and no frame of them is cut out") {
  const std::string plain = file(header("2 ") + element(0x7FE00010, "OB", "abcdefghijkl"), {});
  const std::string packed = file(header("2 ") + compressed({"", "aaaa", "bb"}), {});
  for (const std::string& whole : {plain, packed})
    for (size_t length = 132; length < whole.size(); ++length) {
      INFO(length);
      CHECK_FALSE(frame_refusal(whole.substr(0, length), 2).empty());
    }
  for (const char* frames : {"", "0 ", "-1", "x ", "1e", "999 ", "70000 "})
    CHECK(frames_of(file(header(frames) + element(0x7FE00010, "OB", "abcdef"), {})) == 1);
  CHECK(frames_of(file(header("2 "), {true, false, "1.2.840.10008.1.2.1.99"})) == 1);
  std::string deep;
  for (int i = 0; i < 100; ++i)
    deep += element(0x00081140, "SQ", element(0xFFFEE000, "", "", {}, kUndefined), {}, kUndefined);
  CHECK(frame_refusal(file(deep, {})).ends_with("nest too deeply"));
  CHECK(frames_of(file(deep, {})) == 1);
}
