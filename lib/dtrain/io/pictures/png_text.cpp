#include "dtrain/io/pictures/png_text.hpp"

#include <zlib.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

static void add_big_endian(std::string& out, uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift & 0xFF);
}

std::vector<std::byte> with_png_text(std::span<const std::byte> png, const std::string& keyword,
                                     const std::string& text) {
  constexpr size_t kHeaderEnd = 8 + 12 + 13;  // after signature and IHDR
  check(png.size() > kHeaderEnd, "a PNG that gets a text has a header");
  const std::string body = "tEXt" + keyword + '\0' + text;
  std::string chunk;
  add_big_endian(chunk, static_cast<uint32_t>(body.size() - 4));
  chunk += body;
  add_big_endian(chunk, static_cast<uint32_t>(
                            crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
  const std::span<const std::byte> added = std::as_bytes(std::span(chunk));
  std::vector<std::byte> out(png.begin(), png.begin() + kHeaderEnd);
  out.insert(out.end(), added.begin(), added.end());
  out.insert(out.end(), png.begin() + kHeaderEnd, png.end());
  return out;
}

}  // namespace dtrain
