#include <zlib.h>

#include <algorithm>
#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/record_file.hpp"

namespace dtrain {

namespace {

/// zlib's state, given back whatever happens.
class Inflater {
 public:
  explicit Inflater(Compression compression) {
    constexpr int kLargestWindow = 15;
    constexpr int kGzip = 16;
    const int bits = kLargestWindow + (compression == Compression::gzip ? kGzip : 0);
    if (inflateInit2(&stream_, bits) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Takes from the front of `in` and writes to the front of `out`, as far as either reaches; both shrink. What
  /// inflate() returns.
  int run(std::span<const std::byte>& in, std::span<std::byte>& out) {
    constexpr size_t kPiece = std::numeric_limits<int>::max();
    const size_t offered = std::min(in.size(), kPiece);
    const size_t room = std::min(out.size(), kPiece);
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
    stream_.avail_in = static_cast<uInt>(offered);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    in = in.subspan(offered - stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    return result;
  }
  void begin_again() { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

}  // namespace

Compression compression_of(std::span<const std::byte> start) {
  if (start.size() < 2) return Compression::none;
  const auto first = std::to_integer<int>(start[0]);
  const auto second = std::to_integer<int>(start[1]);
  if (first == 0x1F && second == 0x8B) return Compression::gzip;
  const bool deflate = (first & 0x0F) == 8 && first >> 4 <= 7;
  const bool dictionary = (second & 0x20) != 0;
  return deflate && !dictionary && (first * 256 + second) % 31 == 0 ? Compression::zlib : Compression::none;
}

std::vector<std::byte> decompressed(std::span<const std::byte> packed, Compression compression, const std::string& path,
                                    int64_t max_bytes) {
  const std::string format = compression == Compression::gzip ? "gzip" : "zlib";
  const auto most = static_cast<size_t>(max_bytes);
  Inflater inflater(compression);
  std::vector<std::byte> out(std::min(most, std::max<size_t>(packed.size(), 4096)));
  std::span<const std::byte> in = packed;
  size_t done = 0;
  while (true) {
    std::span<std::byte> room = std::span(out).subspan(done);
    std::byte probe{};  // tells whether anything comes after the last byte that is allowed
    const bool full = room.empty();
    if (full) room = {&probe, 1};
    const size_t before = room.size();
    const size_t left = in.size();
    const int result = inflater.run(in, room);
    const size_t made = before - room.size();
    if (full && made > 0)
      throw DataError(path + " holds more than " + with_commas(max_bytes) + " bytes when it is decompressed");
    done += made;
    if (result == Z_STREAM_END) {
      if (in.empty()) break;
      if (compression == Compression::zlib || compression_of(in) != Compression::gzip)
        throw DataError(path + ": something else follows its " + format + " stream at byte " +
                        with_commas(static_cast<int64_t>(packed.size() - in.size())));
      inflater.begin_again();
    } else if (result == Z_DATA_ERROR || result == Z_NEED_DICT) {
      throw DataError(path + ": its " + format + " stream is damaged near byte " +
                      with_commas(static_cast<int64_t>(packed.size() - in.size())));
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (in.empty() && made == 0 && left == 0) {
      throw DataError(path + ": its " + format + " stream is cut short");
    }
    if (done == out.size() && out.size() < most) out.resize(std::min(most, out.size() + out.size() / 2));
  }
  out.resize(done);
  out.shrink_to_fit();  // it may stay for the whole run
  return out;
}

}  // namespace dtrain
