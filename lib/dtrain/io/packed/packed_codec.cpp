#include "dtrain/io/packed/packed_codec.hpp"

#include <zlib.h>

#include <bit>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

static_assert(std::endian::native == std::endian::little, "samples of 16 bits lie in shards as in memory");

static std::span<const std::byte> samples_of(const Image& picture) {
  return picture.bits == 16 ? std::as_bytes(std::span(picture.words)) : std::as_bytes(std::span(picture.bytes));
}

static size_t row_bytes(const ImageHeader& header) {
  return static_cast<size_t>(header.width * header.channels * header.bits / 8);
}

static std::vector<std::byte> deflated(const Image& picture) {
  const std::span<const std::byte> samples = samples_of(picture);
  const size_t row = row_bytes({picture.height, picture.width, picture.channels, picture.bits});
  std::vector<uint8_t> less(samples.size());
  for (size_t i = 0; i < less.size(); ++i) {
    const unsigned above = i < row ? 0 : std::to_integer<unsigned>(samples[i - row]);
    less[i] = static_cast<uint8_t>(std::to_integer<unsigned>(samples[i]) - above);
  }
  uLongf size = compressBound(less.size());
  std::vector<std::byte> out(size);
  constexpr int kLevel = 6;
  const int done = compress2(reinterpret_cast<Bytef*>(out.data()), &size, less.data(), less.size(), kLevel);
  if (done == Z_MEM_ERROR) throw std::bad_alloc();
  check(done == Z_OK, "zlib deflates into memory of its bound");
  out.resize(size);
  return out;
}

static void add_row(const uint8_t* __restrict above, uint8_t* __restrict row, size_t count) {
  for (size_t i = 0; i < count; ++i) row[i] = static_cast<uint8_t>(row[i] + above[i]);
}

static void inflate_into(std::span<const std::byte> stored, const ImageHeader& header, std::span<uint8_t> samples,
                         const std::string& name) {
  uLongf made = samples.size();
  uLong taken = stored.size();
  const int done = uncompress2(samples.data(), &made, reinterpret_cast<const Bytef*>(stored.data()), &taken);
  if (done == Z_MEM_ERROR) throw std::bad_alloc();
  if (done != Z_OK || made != samples.size() || taken != stored.size())
    throw DataError(name + ": its zlib stream is not a picture of the size given in the index");
  const size_t row = row_bytes(header);
  for (size_t y = row; y < samples.size(); y += row) add_row(&samples[y - row], &samples[y], row);
}

std::vector<std::byte> encode_packed(const Image& picture, PackedCodec codec, int quality) {
  if (codec == PackedCodec::jpeg) return encode_jpeg(picture, quality);
  if (codec == PackedCodec::deflate) return deflated(picture);
  const std::span<const std::byte> samples = samples_of(picture);
  return {samples.begin(), samples.end()};
}

Image raw_packed(size_t stored, const ImageHeader& header, const std::string& name) {
  if (stored != row_bytes(header) * static_cast<size_t>(header.height))
    throw DataError(name + ": its bytes are not a picture of the size given in the index");
  return {header.height, header.width, header.channels, header.bits, {}, {}};
}

Image decode_packed(std::span<const std::byte> stored, const ImageHeader& header, PackedCodec codec,
                    const std::string& name) {
  check(codec != PackedCodec::raw, "raw samples are copied");
  if (codec == PackedCodec::jpeg) {
    Image image = decode_jpeg(stored, name, {.max_pixels = header.height * header.width});
    if (image.height != header.height || image.width != header.width || image.channels != header.channels)
      throw DataError(name + ": its JPEG is not a picture of the size given in the index");
    return image;
  }
  constexpr size_t kMostShrinking = 1032;  // the most that deflate can compress
  if (row_bytes(header) * static_cast<size_t>(header.height) / kMostShrinking > stored.size())
    throw DataError(name + ": its zlib stream is too short for the picture that the index promises");
  Image image = allocate_image(header);
  auto* first = header.bits == 16 ? reinterpret_cast<uint8_t*>(image.words.data()) : image.bytes.data();
  inflate_into(stored, header, {first, row_bytes(header) * static_cast<size_t>(header.height)}, name);
  return image;
}

PackedCodec mask_codec(PackedCodec pictures) {
  return pictures == PackedCodec::raw ? PackedCodec::raw : PackedCodec::deflate;
}

}  // namespace dtrain
