#include "dtrain/io/pictures/png_pixels.hpp"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "dtrain/io/pictures/png_filters.hpp"

namespace dtrain {

namespace {

using ByteSpan = std::span<const std::byte>;

constexpr int64_t kMostBytes = int64_t{64} << 20;  // of all rows
constexpr uint32_t kMostChunkBytes = 8U << 20;     // libpng warns of larger ones
constexpr size_t kFrameBytes = 12;                 // length, type and checksum of a chunk
constexpr size_t kAdlerBytes = 4;

uint32_t big_endian(ByteSpan bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

struct Chunk {
  std::string_view type;
  ByteSpan data;
};

/// Takes a complete chunk with a correct checksum from the front of `rest`; none if there is no such chunk.
std::optional<Chunk> next_chunk(ByteSpan& rest) {
  if (rest.size() < kFrameBytes) return std::nullopt;
  const size_t length = big_endian(rest);
  if (length > rest.size() - kFrameBytes) return std::nullopt;
  const ByteSpan checked = rest.subspan(4, 4 + length);  // the type too
  const uint32_t crc = crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(checked.data()), checked.size());
  if (crc != big_endian(rest.subspan(8 + length))) return std::nullopt;
  rest = rest.subspan(kFrameBytes + length);
  return Chunk{{reinterpret_cast<const char*>(checked.data()), 4}, checked.subspan(4)};
}

/// Whether this is a chunk after the pixels that any reader may skip.
bool is_harmless(const Chunk& chunk) {
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  return chunk.type[0] >= 'a' && std::ranges::all_of(chunk.type, is_letter) && chunk.data.size() <= kMostChunkBytes;
}

/// The pieces of the zlib stream; none unless the chunks after it are good up to IEND.
std::optional<std::vector<ByteSpan>> pixel_pieces(ByteSpan chunks) {
  std::vector<ByteSpan> pieces;
  std::optional<Chunk> chunk = next_chunk(chunks);
  for (; chunk && chunk->type == "IDAT"; chunk = next_chunk(chunks)) {
    if (chunk->data.size() > kMostChunkBytes) return std::nullopt;
    pieces.push_back(chunk->data);
  }
  while (chunk && is_harmless(*chunk)) chunk = next_chunk(chunks);
  if (!chunk || chunk->type != "IEND" || !chunk->data.empty()) return std::nullopt;
  return pieces;
}

struct Stream {
  std::unique_ptr<std::byte[]> joined;  // if it had several pieces
  ByteSpan bytes;
};

Stream join(const std::vector<ByteSpan>& pieces) {
  if (pieces.size() == 1) return {nullptr, pieces.front()};
  size_t size = 0;
  for (const ByteSpan piece : pieces) size += piece.size();
  Stream stream{std::make_unique_for_overwrite<std::byte[]>(size), {}};
  size = 0;
  for (const ByteSpan piece : pieces) {
    std::copy(piece.begin(), piece.end(), stream.joined.get() + size);
    size += piece.size();
  }
  stream.bytes = {stream.joined.get(), size};
  return stream;
}

/// Checks zlib's two bytes before the data. A stream whose window is smaller than the data is left to libpng, which
/// finds distances that are too far.
bool is_plain_header(ByteSpan stream, size_t data_bytes) {
  const auto method = std::to_integer<uint32_t>(stream[0]);
  const auto flags = std::to_integer<uint32_t>(stream[1]);
  const size_t window = size_t{256} << (method >> 4);
  return (method & 15) == 8 && method >> 4 <= 7 && (flags & 0x20) == 0 && (method << 8 | flags) % 31 == 0 &&
         (window >= data_bytes || window == 32768);
}

/// True if `stream` is exactly one zlib stream of `data.size()` bytes and its checksum is correct.
bool inflate(ByteSpan stream, std::span<uint8_t> data) {
  if (stream.size() < 2 + kAdlerBytes || !is_plain_header(stream, data.size())) return false;
  const ByteSpan packed = stream.subspan(2, stream.size() - 2 - kAdlerBytes);
  if (packed.size() > std::numeric_limits<uint32_t>::max()) return false;
  const auto state = std::make_unique_for_overwrite<inflate_state>();
  isal_inflate_init(state.get());
  state->next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(packed.data()));
  state->avail_in = static_cast<uint32_t>(packed.size());
  state->next_out = data.data();
  state->avail_out = static_cast<uint32_t>(data.size());
  if (isal_inflate_stateless(state.get()) != ISAL_DECOMP_OK || state->block_state != ISAL_BLOCK_FINISH ||
      state->avail_in != 0 || state->avail_out != 0)
    return false;
  return isal_adler32(1, data.data(), data.size()) == big_endian(stream.last(kAdlerBytes));
}

/// Copies rows of 8- or 16-bit samples to `out`, without the last sample of each pixel if that is an alpha.
template <typename Sample>
void take_samples(const uint8_t* row, const PngLayout& layout, int64_t channels, Sample* out) {
  const auto pixel = static_cast<int64_t>(sizeof(Sample)) * layout.samples;
  for (int64_t y = 0; y < layout.height; ++y, row += layout.row_bytes() + 1, out += layout.width * channels) {
    if (channels == layout.samples) {
      std::memcpy(out, row, static_cast<size_t>(layout.row_bytes()));
    } else {
      for (int64_t x = 0; x < layout.width; ++x)
        std::memcpy(out + x * channels, row + x * pixel, static_cast<size_t>(channels) * sizeof(Sample));
    }
  }
}

/// Calls take(value) for every sample of rows of 1, 2, 4 or 8 bits, the most significant bits first.
template <typename Take>
void for_each_sample(const uint8_t* row, const PngLayout& layout, Take take) {
  const auto mask = (1U << layout.depth) - 1;
  for (int64_t y = 0; y < layout.height; ++y, row += layout.row_bytes() + 1)
    for (int64_t bit = 0; bit < layout.width * layout.depth; bit += layout.depth)
      take(static_cast<uint8_t>(row[bit >> 3] >> (8 - layout.depth - (bit & 7)) & mask));
}

/// For three channels the colours of the palette, for one channel its indices.
bool look_up(const uint8_t* row, const PngLayout& layout, int64_t channels, uint8_t* out) {
  uint8_t most = 0;
  for_each_sample(row, layout, [&](uint8_t index) {
    most = std::max(most, index);
    if (channels == 1) {
      *out++ = index;
    } else {
      for (const uint8_t value : layout.colours[index]) *out++ = value;
    }
  });
  return most < layout.colour_count;
}

/// Turns unfiltered rows as the file has them into samples: the first at `row`, one byte (the filter) between rows.
bool expand(const uint8_t* row, const PngLayout& layout, Image& image) {
  if (layout.palette) return look_up(row, layout, image.channels, image.bytes.data());
  if (layout.depth < 8) {
    const auto scale = static_cast<uint8_t>(255 / ((1 << layout.depth) - 1));
    for_each_sample(row, layout, [scale, out = image.bytes.data()](uint8_t value) mutable {
      *out++ = static_cast<uint8_t>(value * scale);
    });
  } else if (layout.depth == 8) {
    take_samples(row, layout, image.channels, image.bytes.data());
  } else {
    take_samples(row, layout, image.channels, image.words.data());
    if constexpr (std::endian::native == std::endian::little)
      for (uint16_t& word : image.words) word = static_cast<uint16_t>(word << 8 | word >> 8);
  }
  return true;
}

}  // namespace

bool decode_png_pixels(std::span<const std::byte> chunks, const PngLayout& layout, Image& image) {
  const int64_t row_bytes = layout.row_bytes();
  if (layout.height > kMostBytes / (row_bytes + 1)) return false;
  const auto pieces = pixel_pieces(chunks);
  if (!pieces) return false;
  const auto size = static_cast<size_t>(layout.height * (row_bytes + 1));
  const auto rows = std::make_unique_for_overwrite<uint8_t[]>(size);
  return inflate(join(*pieces).bytes, {rows.get(), size}) &&
         undo_png_filters(rows.get(), layout.height, row_bytes, static_cast<int>(layout.pixel_bytes())) &&
         expand(rows.get() + 1, layout, image);
}

}  // namespace dtrain
