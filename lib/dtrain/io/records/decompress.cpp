#include <zlib.h>

#include <algorithm>
#include <limits>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/records/record_file.hpp"

namespace dtrain {

namespace {

/// zlib's state, freed in every case.
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

  /// Takes from the front of `in` and writes to the front of `out` until one of them is used up; both shrink. Returns
  /// what inflate() returns.
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

/// Reads a compressed file piece by piece.
class PackedInput {
 public:
  explicit PackedInput(const RecordFile& file) : file_(file), buffer_(std::min(kPiece, file.size())) {}

  std::span<const std::byte> bytes;  ///< the next bytes; readers remove them from the front

  /// Makes sure that `bytes` holds at least two, if so many are left.
  void fill() {
    if (bytes.size() >= 2 || next_ == file_.size()) return;
    const size_t kept = bytes.size();
    std::copy(bytes.begin(), bytes.end(), buffer_.begin());
    const auto count = std::min(buffer_.size() - kept, static_cast<size_t>(file_.size() - next_));
    file_.read(next_, std::span(buffer_).subspan(kept, count));
    next_ += static_cast<int64_t>(count);
    bytes = std::span<const std::byte>(buffer_).first(kept + count);
  }
  /// The next byte's offset in the file.
  int64_t position() const { return next_ - static_cast<int64_t>(bytes.size()); }

 private:
  static constexpr int64_t kPiece = int64_t{256} << 10;

  const RecordFile& file_;
  std::vector<std::byte> buffer_;
  int64_t next_ = 0;  // offset of the first byte not read into the buffer yet
};

constexpr int64_t kLeastStep = int64_t{1} << 20;

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

GrowingMemory decompressed(const RecordFile& packed, Compression compression, int64_t max_bytes) {
  const std::string& path = packed.path();
  const std::string format = name_of(compression);
  Inflater inflater(compression);
  PackedInput in(packed);
  MemoryDraw memory("decompressing " + path, "decompress it once on disk");
  GrowingMemory out;
  int64_t done = 0;
  while (true) {
    in.fill();
    if (done == out.size() && done < max_bytes) {
      const int64_t step = std::min(std::max<int64_t>(kLeastStep, done / 8), max_bytes - done);
      memory.take(step);
      out.resize(done + step);
    }
    std::span<std::byte> room = out.bytes().subspan(static_cast<size_t>(done));
    std::byte probe{};  // shows whether more than the allowed bytes would come
    const bool full = room.empty();
    if (full) room = {&probe, 1};
    const size_t before = room.size();
    const size_t left = in.bytes.size();
    const int result = inflater.run(in.bytes, room);
    const size_t made = before - room.size();
    if (full && made > 0)
      throw DataError(path + " holds more than " + with_commas(max_bytes) +
                      " bytes when decompressed, the rest of data.loader.decompressed_mb; decompress it once on disk, "
                      "or raise the key");
    done += static_cast<int64_t>(made);
    if (result == Z_STREAM_END) {
      in.fill();
      if (in.bytes.empty()) break;
      if (compression == Compression::zlib || compression_of(in.bytes) != Compression::gzip)
        throw DataError(path + ": something else follows its " + format + " stream at byte " +
                        with_commas(in.position()));
      inflater.begin_again();
    } else if (result == Z_DATA_ERROR || result == Z_NEED_DICT) {
      throw DataError(path + ": its " + format + " stream is damaged near byte " + with_commas(in.position()));
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (left == 0 && made == 0) {
      throw DataError(path + ": its " + format + " stream is cut short");
    }
  }
  out.resize(done);
  return out;
}

}  // namespace dtrain
