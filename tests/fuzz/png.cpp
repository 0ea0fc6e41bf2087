// The code behind a PNG's checksums: they are corrected first, or made-up bytes would never get there.
#include <span>
#include <vector>

#include "dtrain/io/pictures/image.hpp"
#include "dtrain/io/pictures/png_filters.hpp"
#include "input.hpp"

using namespace dtrain;

namespace {

constexpr size_t kSignature = 8;
constexpr size_t kFrame = 12;  // length, type and checksum of a chunk

uint32_t checksum(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0U;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
  }
  return ~crc;
}

void make_checksums_right(std::vector<uint8_t>& file) {
  for (size_t at = kSignature; at + kFrame <= file.size();) {
    const size_t length =
        size_t{file[at]} << 24 | size_t{file[at + 1]} << 16 | size_t{file[at + 2]} << 8 | file[at + 3];
    if (length > file.size() - at - kFrame) return;
    const uint32_t crc = checksum(std::span(file).subspan(at + 4, length + 4));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    at += kFrame + length;
  }
}

/// The first two bytes are the length of a row and of a pixel; the filtered rows follow.
void undo_filters(std::vector<uint8_t> data) {
  if (data.size() < 2) return;
  const int64_t row_bytes = 1 + data[0];
  const int pixel_bytes = 1 + data[1] % 8;
  data.erase(data.begin(), data.begin() + 2);
  undo_png_filters(data.data(), static_cast<int64_t>(data.size()) / (row_bytes + 1), row_bytes, pixel_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  undo_filters({data, data + size});
  return fuzz::read_or_refuse([&] {
    std::vector<uint8_t> file(data, data + size);
    make_checksums_right(file);
    decode_image(std::as_bytes(std::span(file)), "fuzz", ImageLimits{.max_pixels = 1 << 20});
    decode_mask_image(std::as_bytes(std::span(file)), "fuzz", ImageLimits{.max_pixels = 1 << 20});
  });
}
