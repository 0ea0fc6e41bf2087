// NumPy arrays are short enough to be written out as np.save writes them.
#include <array>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "picture_damage.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using namespace std::string_literals;
using dtrain::test::error_of;

namespace {

/// A file with that header and those values. The header is filled up with spaces to a multiple of 64, as NumPy does.
std::string npy_file(const std::string& header, const std::string& values, int version = 1) {
  const size_t before = version == 1 ? 10 : 12;
  std::string text = header;
  text.append(63 - (before + text.size()) % 64, ' ').append("\n");
  std::string file = "\x93NUMPY"s + static_cast<char>(version) + '\0';
  for (size_t i = 8; i < before; ++i) file += static_cast<char>(text.size() >> (8 * (i - 8)));
  return file + text + values;
}

std::string npy(const std::string& type, const std::string& shape, const std::string& values, bool fortran = false,
                int version = 1) {
  return npy_file(
      "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }",
      values, version);
}

Image decoded_npy(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  const Image image = decode_image(bytes, "t.npy");
  const ImageHeader header = read_image_header(bytes, "t.npy");
  CHECK((header.width == image.width && header.height == image.height && header.channels == image.channels &&
         header.bits == image.bits));
  return image;
}

std::string npy_refusal(const std::string& file) {
  return error_of<DataError>([&] { decode_image(std::as_bytes(std::span(file.data(), file.size())), "t.npy"); });
}

void check_refused(const std::string& file, const std::string& part) {
  const std::string sentence = npy_refusal(file);
  INFO(sentence << " should hold: " << part);
  CHECK(sentence.starts_with("t.npy is a "));
  CHECK(sentence.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("NumPy arrays of uint8, uint16 and bool give the pixels that were saved, in each format version") {
  for (const int version : {1, 2, 3}) {
    const Image grey = decoded_npy(npy("|u1", "(2, 3)", "\x01\x02\x03\x04\x05\xFF", false, version));
    CHECK((grey.height == 2 && grey.width == 3 && grey.channels == 1));
    CHECK(grey.bytes == std::vector<uint8_t>{1, 2, 3, 4, 5, 255});
  }
  CHECK(decoded_npy(npy("<u2", "(1, 2)", "\x34\x12\xFF\xFF")).words == std::vector<uint16_t>{0x1234, 65535});
  CHECK(decoded_npy(npy(">u2", "(1, 2)", "\x34\x12\xFF\xFF")).words == std::vector<uint16_t>{0x3412, 65535});
  CHECK(decoded_npy(npy("|b1", "(2, 2)", "\0\1\1\0"s)).bytes == std::vector<uint8_t>{0, 255, 255, 0});
  const auto mask = npy("|b1", "(1, 2)", "\0\1"s);
  CHECK(decode_mask_image(std::as_bytes(std::span(mask.data(), mask.size())), "t").bytes ==
        std::vector<uint8_t>{0, 255});
}

TEST_CASE("channels stand last in a NumPy array; alpha is dropped") {
  const Image one = decoded_npy(npy("|u1", "(2, 1, 1)", "\x01\x02"));
  CHECK((one.height == 2 && one.width == 1 && one.channels == 1));
  CHECK(one.bytes == std::vector<uint8_t>{1, 2});
  CHECK(decoded_npy(npy("|u1", "(1, 2, 3)", "abcdef")).bytes == std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  const Image rgba = decoded_npy(npy("|u1", "(1, 2, 4)", "abc!def!"));
  CHECK(rgba.channels == 3);
  CHECK(rgba.bytes == std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  const Image flat = decoded_npy(npy("|u1", "(2, 1, 3)", "abcdef"));  // and not two grey pictures of 1 × 3
  CHECK((flat.height == 2 && flat.width == 1 && flat.channels == 3));
  CHECK(decoded_npy(npy(">u2", "(1, 1, 4)", "\0\1\0\2\0\3\0\4"s)).words == std::vector<uint16_t>{1, 2, 3});
}

TEST_CASE("of an array in Fortran order the first index runs fastest") {
  CHECK(decoded_npy(npy("|u1", "(2, 3)", "adbecf", true)).bytes == std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  // Pixel (y, x) of channel c is 1 + 6c + 3y + x.
  const Image colour =
      decoded_npy(npy("<u2", "(2, 3, 4)",
                      "\1\0\4\0\2\0\5\0\3\0\6\0\7\0\x0A\0\x08\0\x0B\0\x09\0\x0C\0\x0D\0\x10\0\x0E\0\x11\0\x0F\0\x12\0"
                      "!!!!!!!!!!!!"s,
                      true));
  CHECK(colour.words == std::vector<uint16_t>{1, 7, 13, 2, 8, 14, 3, 9, 15, 4, 10, 16, 5, 11, 17, 6, 12, 18});
}

TEST_CASE("the header of a NumPy array may be written in another order and with other spaces") {
  const std::vector<uint8_t> pixels = {'a', 'b', 'c', 'd'};
  for (const char* header : {"{\"shape\":(2,2),\"descr\":\"|u1\",\"fortran_order\":False}",
                             "{ 'fortran_order' : False , 'shape' : ( 2 , 2 , ) , 'descr' : '<u1' , }",
                             "{'descr': '>u1', 'shape': (2, 2), 'fortran_order': False, }"})
    CHECK(decoded_npy(npy_file(header, "abcd")).bytes == pixels);
}

TEST_CASE("arrays that are no pictures are refused, each with what to do") {
  const std::pair<const char*, const char*> types[] = {
      {"<f4", "of float32; uint8"}, {"<f8", "of float64;"},         {"<i8", "of int64;"},         {"|i1", "of int8;"},
      {"<u4", "of uint32;"},        {"<c8", "of complex64;"},       {"|O", "of Python objects;"}, {"<U5", "of text;"},
      {"<M8[ns]", "of times;"},     {"|V7", "of an unknown type;"}, {"", "of an unknown type;"},  {"|u2", "of uint16;"},
      {"|u", "of uint;"},           {"<f99999", "of float;"}};
  for (const auto& [type, part] : types) check_refused(npy(type, "(1, 1)", "12345678"), part);
  check_refused(npy_file("{'descr': [('a', '<u1')], 'fortran_order': False, 'shape': (1, 1), }", "1"),
                "of several fields; uint8");
  const std::pair<const char*, const char*> shapes[] = {
      {"()", "of shape (); pictures are (height, width)"},
      {"(4,)", "of shape (4)"},
      {"(30, 64, 64)",
       "of shape (30, 64, 64); pictures are (height, width), or (height, width, 1, 3 or 4 channels): no "
       "picture of a stack can be chosen, so save each to a separate file"},
      {"(3, 64, 64)", "file, or where the first are channels save numpy.moveaxis(array, 0, -1)"},
      {"(8, 8, 2)", "of shape (8, 8, 2)"},
      {"(1, 1, 1, 1)", "of shape (1, 1, 1, 1)"},
      {"(1, 1, 1, 1, 1, 1, 1)", "of shape (1, 1, 1, 1, 1, …)"}};
  for (const auto& [shape, part] : shapes) check_refused(npy("|u1", shape, "1234"), part);
}

TEST_CASE("what is wrong in a NumPy array is told") {
  check_refused(npy("|u1", "(2, 2)", "123"), "too short for the picture");
  check_refused(npy("|u1", "(2, 2)", "12345"), "bytes follow the array");
  check_refused(npy("|b1", "(1, 2)", "\1\2"), "neither 0 nor 1");
  CHECK(npy_refusal(npy("|u1", "(0, 2)", "")).find("2 × 0 pixels holds nothing") != std::string::npos);
  CHECK(npy_refusal(npy("|u1", "(2, 0, 3)", "")).find("0 × 2 pixels holds nothing") != std::string::npos);
  check_refused(npy("|u1", "(1, 1)", "1", false, 4), "its version is 4.0");
  check_refused("\x93NUMPY", "the header ends too early");
  check_refused("\x93NUMPY\1\0\xFF"s, "the header ends too early");
  check_refused("\x93NUMPY\1\0\x10\x00{}"s, "the header ends too early");
  check_refused("\x93NUMPY\2\0\xFF\xFF\xFF\xFF{}"s, "its header has more than 10,000 bytes");
  check_refused("\x93NUMPY\1\0\0\0"s, "not a dict of descr, fortran_order and shape (at byte 0)");
}

TEST_CASE("a header of a NumPy array that is not that dict is refused, whatever Python would make of it") {
  const std::string type = "'descr': '|u1', ";
  const std::string order = "'fortran_order': False, ";
  const std::string shape = "'shape': (1, 1), ";
  REQUIRE(npy_refusal(npy_file("{" + type + order + shape + "}", "1")).empty());
  const std::string headers[] = {
      "",
      "{}",
      "{" + type + order + "}",
      "{" + type + shape + "}",
      "{" + order + shape + "}",
      "{" + type + order + shape,
      "{" + type + order + shape + "}}",
      "{" + type + order + shape + "} # spaces",
      "{" + type + type + order + shape + "}",
      "{" + type + order + order + shape + "}",
      "{" + type + order + shape + shape + "}",
      "{" + type + order + shape + "'more': 1}",
      "{" + type + order + shape + ",}",
      "{," + type + order + shape + "}",
      "dict(descr='|u1', fortran_order=False, shape=(1, 1))",
      "{" + type + order + "'shape': [1, 1]}",
      "{" + type + order + "'shape': (1 1)}",
      "{" + type + order + "'shape': (1,, 1)}",
      "{" + type + order + "'shape': (, 1)}",
      "{" + type + order + "'shape': (-1, 1)}",
      "{" + type + order + "'shape': (1L, 1L)}",
      "{" + type + order + "'shape': (1.0, 1)}",
      "{" + type + order + "'shape': (1)}",
      "{" + type + order + "'shape': (1, 1",
      "{" + type + order + "'shape': (1, 1000000000000000000)}",
      "{" + type + order + "'shape': 1, 1}",
      "{" + type + shape + "'fortran_order': 0}",
      "{" + type + shape + "'fortran_order': Falsehood}",
      "{" + order + shape + "'descr': '|u\\x31'}",
      "{" + order + shape + "'descr': \"|u1'}",
      "{" + order + shape + "'descr': '|u1}",
      "{" + order + shape + "'descr': b'|u1'}",
      "{" + order + shape + "'descr': None}",
  };
  for (const std::string& header : headers) check_refused(npy_file(header, "1"), "its header is not a dict of descr");
}

TEST_CASE("a small NumPy array that promises a huge picture is refused before memory is taken") {
  const dtrain::test::MemoryWatch memory;
  for (const char* shape : {"(16000, 16000)", "(9000, 9000, 4)"})
    check_refused(npy("<u2", shape, "1234"), "too short for the picture");
  for (const char* shape :
       {"(60000, 60000)", "(999999999999999999, 999999999999999999)", "(4294967296, 4294967296, 4)"})
    CHECK(npy_refusal(npy("|u1", shape, "1")).find("more than the 268,435,456 allowed") != std::string::npos);
  check_refused(npy("|u1", "(1, 999999999999999999, 1, 1)", "1"), "of shape");
  CHECK(memory.grown_mb() < 20);
}

TEST_CASE("a NumPy array cut anywhere is refused, with a byte changed it may still be a picture of its size") {
  std::string values;
  for (int i = 0; i < 60; ++i) values += static_cast<char>(i * 4);
  const std::array files = {npy("|u1", "(5, 4, 3)", values), npy("<u2", "(6, 5)", values, true, 2),
                            npy("|b1", "(3, 20)", std::string(60, '\1'), false, 3)};
  for (const std::string& file : files) {
    for (size_t length = 1; length < file.size(); ++length) CHECK_FALSE(npy_refusal(file.substr(0, length)).empty());
    dtrain::test::check_damaged(file, "t.npy");
  }
}
