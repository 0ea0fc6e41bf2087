#include "dtrain/io/pictures/mask_png.hpp"

#include <zlib.h>

#include <span>
#include <string>

#include "dtrain/base/error.hpp"

namespace dtrain {

static std::string four_bytes(uint32_t number) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift & 0xFF);
  return out;
}

static std::string mask_chunk(const std::string& kind, const std::string& data) {
  const std::string body = kind + data;
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
  return four_bytes(static_cast<uint32_t>(data.size())) + body + four_bytes(static_cast<uint32_t>(sum));
}

// Each row behind the number of its filter, 0: none.
static std::string rows_of(const Image& mask) {
  std::string rows;
  rows.reserve(static_cast<size_t>(mask.height * (mask.width * (mask.bits / 8) + 1)));
  for (int64_t y = 0; y < mask.height; ++y) {
    rows += '\0';
    for (int64_t i = y * mask.width; i < (y + 1) * mask.width; ++i) {
      const auto at = static_cast<size_t>(i);
      if (mask.bits == 16) rows += static_cast<char>(mask.words[at] >> 8);
      rows += static_cast<char>(mask.bits == 16 ? mask.words[at] & 0xFF : mask.bytes[at]);
    }
  }
  return rows;
}

std::vector<std::byte> encode_mask_png(const Image& mask) {
  check(mask.channels == 1 && mask.height > 0 && mask.width > 0, "a mask is grey and not empty");
  const std::string rows = rows_of(mask);
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  const int done = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                             reinterpret_cast<const Bytef*>(rows.data()), rows.size(), Z_DEFAULT_COMPRESSION);
  check(done == Z_OK, "zlib compresses a mask");
  packed.resize(size);
  const std::string kind{static_cast<char>(mask.bits), 0, 0, 0, 0};  // depth, grey, the usual methods, not interlaced
  const std::string file = "\x89PNG\r\n\x1a\n" +
                           mask_chunk("IHDR", four_bytes(static_cast<uint32_t>(mask.width)) +
                                                  four_bytes(static_cast<uint32_t>(mask.height)) + kind) +
                           mask_chunk("IDAT", packed) + mask_chunk("IEND", "");
  const std::span<const std::byte> bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

}  // namespace dtrain
