// PBM, PGM, PPM and PAM: the files are short enough to be written out.
#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "picture_damage.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using namespace std::string_view_literals;
using dtrain::test::error_of;

namespace {

Image decoded_pnm(std::string_view text) {
  const auto file = std::as_bytes(std::span(text.data(), text.size()));
  const Image image = decode_image(file, "t.pnm");
  const ImageHeader header = read_image_header(file, "t.pnm");
  CHECK((header.width == image.width && header.height == image.height && header.channels == image.channels &&
         header.bits == image.bits));
  return image;
}

std::string pnm_refusal(std::string_view text) {
  return error_of<DataError>([&] { decode_image(std::as_bytes(std::span(text.data(), text.size())), "t.pnm"); });
}

}  // namespace

TEST_CASE("plain and raw PBM: 1 is black, rows are padded to bytes") {
  const std::vector<uint8_t> pixels = {0, 255, 255, 255, 255, 255, 255, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255};
  const Image plain = decoded_pnm("P1 # a comment\n9 2\n100000001 01 0101010\n"sv);
  CHECK(plain.bytes == pixels);
  CHECK(plain.channels == 1);
  CHECK(decoded_pnm("P4\n9 2\n\x80\x80\x55\x00"sv).bytes == pixels);
}

TEST_CASE("PGM of 8 and 16 bits; white is what the file says") {
  CHECK(decoded_pnm("P2\n3 1\n255\n0 7 255\n"sv).bytes == std::vector<uint8_t>{0, 7, 255});
  CHECK(decoded_pnm("P5 3 1 255 \x00\x07\xFF"sv).bytes == std::vector<uint8_t>{0, 7, 255});
  CHECK(decoded_pnm("P5\n#c\n3 1\n15\n\x00\x07\x0F"sv).bytes == std::vector<uint8_t>{0, 119, 255});
  const Image deep = decoded_pnm("P5\n2 1\n65535\n\x12\x34\xFF\xFF"sv);
  CHECK(deep.bits == 16);
  CHECK(deep.words == std::vector<uint16_t>{0x1234, 65535});
  CHECK(decoded_pnm("P2 2 1 4095 1 4095"sv).words == std::vector<uint16_t>{16, 65535});
}

TEST_CASE("PPM and PAM; alpha is dropped") {
  const std::vector<uint8_t> pixels = {1, 2, 3, 4, 5, 6};
  CHECK(decoded_pnm("P3 1 2 255 1 2 3 4 5 6"sv).bytes == pixels);
  const Image raw = decoded_pnm("P6\n1 2\n255\n\x01\x02\x03\x04\x05\x06"sv);
  CHECK(raw.bytes == pixels);
  CHECK((raw.height == 2 && raw.width == 1 && raw.channels == 3));
  CHECK(
      decoded_pnm(
          "P7\nWIDTH 1\nHEIGHT 2\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n\x01\x02\x03\x09\x04\x05\x06\x09"sv)
          .bytes == pixels);
  CHECK(decoded_pnm("P7\nWIDTH 2\nHEIGHT 1\nDEPTH 2\nMAXVAL 65535\nENDHDR\n\x01\x02\x00\x00\x03\x04\x00\x00"sv).words ==
        std::vector<uint16_t>{0x0102, 0x0304});
}

TEST_CASE("what is wrong in a PNM is told") {
  const std::pair<std::string_view, const char*> cases[] = {
      {"P5\n2 2\n255\n123"sv, "too short"},
      {"P5\n2 2\n255\n12345"sv, "bytes follow"},
      {"P5\n2 2\n0\n1234"sv, "white is 0"},
      {"P5\n2 2\n65536\n1234"sv, "white is 65536"},
      {"P5\n2 x\n255\n1234"sv, "the height"},
      {"P5\n-2 2\n255\n1234"sv, "the width"},
      {"P5\n0 2\n255\n"sv, "holds nothing"},
      {"P5\n99999999999 2\n255\n"sv, "the width"},
      {"P5\n2 2\n15\n\x01\x02\x03\x10"sv, "greater than white"},
      {"P2\n2 1\n15\n3 16"sv, "greater than white"},
      {"P1\n2 1\n02"sv, "neither 0 nor 1"},
      {"P5\n2 2"sv, "the value of white"},
      {"P7\nWIDTH 1\nHEIGHT 2\nDEPTH 9\nMAXVAL 255\nENDHDR\n"sv, "9 channels"},
      {"P7\nWIDTH 1\nENDHDR\n"sv, "missing"},
      {"P7\nWIDTH 1\n"sv, "the header ends too early"},
      {"PF\n1 1\n-1.0\n1234"sv, "a PFM picture of floats"},
  };
  for (const auto& [text, part] : cases) {
    const std::string sentence = pnm_refusal(text);
    INFO(std::string(text) << " gives: " << sentence);
    CHECK(sentence.starts_with("t.pnm"));
    CHECK(sentence.find(part) != std::string::npos);
  }
}

TEST_CASE("a small PNM that promises a huge picture is refused before memory is taken") {
  const dtrain::test::MemoryWatch memory;
  for (const char* kind : {"P1", "P2", "P3", "P4", "P5", "P6"}) {
    const std::string bomb = std::string(kind) + "\n16000 16000\n" + (kind[1] % 3 == 1 ? "" : "255\n") + "1 2 3";
    CHECK(pnm_refusal(bomb).find("too short for the picture") != std::string::npos);
  }
  CHECK(pnm_refusal("P5\n60000 60000\n255\n").find("more than the 268,435,456 allowed") != std::string::npos);
  CHECK(memory.grown_mb() < 20);
}

TEST_CASE("a PNM cut anywhere or with a byte changed is refused or still a picture of its size") {
  std::string raw = "P6\n# made here\n5 3\n255\n";
  for (int i = 0; i < 45; ++i) raw += static_cast<char>(i * 5);
  for (const std::string& text : {raw, std::string("P2\n3 3\n255\n1 2 3\n40 50 60\n255 0 128\n")})
    dtrain::test::check_damaged(text, "t.pnm");
}
