#include "dtrain/io/pictures/image.hpp"

#include <cstdlib>
#include <functional>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "picture_damage.hpp"
#include "support/catch.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;

namespace {

std::string picture_refusal(std::string_view bytes) {
  return error_of<DataError>([&] { decode_image(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.png"); });
}

}  // namespace

TEST_CASE("files of other types are refused by their type's name, whatever they are called") {
  using namespace std::string_view_literals;
  const std::pair<std::string_view, const char*> cases[] = {
      {"GIF89a..."sv, "a GIF"},
      {"RIFF1234WEBPVP8 "sv, "a WebP"},
      {"\0\0\0\x0CjP  \r\n"sv, "a JPEG 2000"},
      {"\0\0\0\x20"
       "ftypavif"sv,
       "AVIF"},
      {"<!DOCTYPE html>"sv, "an HTML page"},
      {"version https://git-lfs.github.com/spec/v1\n"sv, "a Git LFS pointer"},
      {"\0\0\0\0\0\0\0\0"sv, "filled with zero bytes"},
      {"hello"sv, "none of them"},
      {"\x89PN"sv, "none of them"},
      {"\xFF"sv, "none of them"},
  };
  for (const auto& [bytes, title] : cases) {
    const std::string sentence = picture_refusal(bytes);
    INFO(sentence);
    CHECK(sentence.find("x.png: only PNG, JPEG, DICOM, TIFF, BMP, PNM and NPY pictures are read") == 0);
    CHECK(sentence.find(title) != std::string::npos);
  }
  CHECK(picture_refusal("").find("x.png is empty (0 bytes)") == 0);
}

TEST_CASE("the type is told by the first bytes, not by the name") {
  const Image image{2, 2, 1, 8, {0, 80, 160, 240}, {}};
  CHECK(decode_image(encode_png(image), "wrong.jpg").bytes == image.bytes);
  CHECK(decode_image(encode_jpeg(image), "wrong.png").width == 2);
}

TEST_CASE("picture names are known by their extension") {
  for (const char* name : {"a.png", "a.PNG", "b/c.jpg", "x.Jpeg", "a.tif", "a.TIFF", "a.bmp", "a.pbm", "a.pgm", "a.ppm",
                           "a.pnm", "a.pam", "a.npy", "a.dcm"})
    CHECK(has_image_extension(name));
  for (const char* name : {"a.tif#1", "png", "a.png.txt", "", "a.gif"}) CHECK_FALSE(has_image_extension(name));
  for (const char* name : {"a.jpg", "b/c.JPEG"}) CHECK(inexact_format(name) == "JPEG");
  for (const char* name : {"a.png", "a.npy", "jpg", "a.gif"}) CHECK(inexact_format(name).empty());
}

TEST_CASE("a picture that cannot be encoded is our own error") {
  CHECK_THROWS_AS(encode_png({2, 2, 1, 8, {1, 2, 3}, {}}), InternalError);
  CHECK_THROWS_AS(encode_png({1, 2, 1, 16, {}, {5}}), InternalError);
  CHECK_THROWS_AS(encode_jpeg({1, 1, 1, 16, {}, {5}}), InternalError);
  CHECK_THROWS_AS(encode_png({1, 1, 4, 8, {1, 2, 3, 4}, {}}), InternalError);
  CHECK_THROWS_AS(encode_jpeg({0, 0, 1, 8, {}, {}}), InternalError);
  CHECK_THROWS_AS(encode_jpeg({1, 1, 1, 8, {1}, {}}, 0), InternalError);
  CHECK_THROWS_AS(encode_jpeg({1, 70'000, 1, 8, std::vector<uint8_t>(70'000), {}}), InternalError);
}

TEST_CASE("PngSuite: the 161 good files are decoded, the 14 corrupt ones refused") {
  const char* root = std::getenv("DTRAIN_TEST_DATA");
  const std::filesystem::path folder = std::filesystem::path(root == nullptr ? "" : root) / "pngsuite";
  if (root == nullptr || !std::filesystem::is_directory(folder)) {
    dtrain::test::skip("DTRAIN_TEST_DATA names no folder with pngsuite in it");
    return;
  }
  int good = 0;
  int corrupt = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!has_image_extension(path)) continue;
    INFO(path);
    if (entry.path().filename().string().front() == 'x') {
      CHECK_THROWS_AS(decode_image(read_file(path), path), DataError);
      ++corrupt;
    } else {
      CHECK_NOTHROW(decode_image(read_file(path), path));
      ++good;
    }
  }
  CHECK(good == 161);
  CHECK(corrupt == 14);
}

TEST_CASE("more pixels than allowed are refused by the header, whatever the format") {
  const Image image{4, 5, 1, 8, std::vector<uint8_t>(20, 7), {}};
  const std::string bmp_head("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\5\0\0\0\4\0\0\0\1\0\x18\0", 30);
  const auto bytes_of = [](const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const std::vector<std::byte> files[] = {encode_png(image), encode_jpeg(image),
                                          bytes_of(bmp_head + std::string(24 + 4 * 16, '\0')),
                                          bytes_of("P5\n5 4\n255\n" + std::string(20, 'x'))};
  for (const std::vector<std::byte>& file : files) {
    CHECK(decode_image(file, "x", ImageLimits{20}).width == 5);
    for (const auto& read : {std::function([&] { decode_image(file, "x", ImageLimits{19}); }),
                             std::function([&] { read_image_header(file, "x", ImageLimits{19}); })})
      CHECK(error_of<DataError>(read).find("are more than the 19 allowed") != std::string::npos);
  }
}

TEST_CASE("the memory that a test watches is what it takes, whatever was taken and given back before") {
  const auto take = [](size_t megabytes) {
    const std::vector<char> taken(megabytes << 20, 'x');
    CHECK(taken.back() == 'x');
  };
  take(120);
  const dtrain::test::MemoryWatch memory;
  if (!memory.works()) return;
  CHECK(memory.grown_mb() < 10);
  take(60);
  CHECK(memory.grown_mb() >= 50);
  CHECK(memory.grown_mb() < 80);
}
