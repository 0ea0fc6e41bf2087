#include "dtrain/io/pictures/tiff_pages.hpp"

#include <algorithm>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

constexpr size_t kMostPages = 65'535;
constexpr uint64_t kMostValues = uint64_t{16} << 20;     // bytes of all lists of a page, enough for two million strips
constexpr uint64_t kMostPixelBytes = uint64_t{2} << 30;  // more than the uncompressed pixels that ImageLimits permits

enum Tag : uint16_t {
  kNewSubfileType = 254,
  kStripOffsets = 273,
  kStripBytes = 279,
  kTileOffsets = 324,
  kTileBytes = 325,
};

/// The tags that pixels depend on; others (descriptions, profiles, private data) are not copied with a page.
constexpr uint16_t kPixelTags[] = {256,          257,         258, 259, 262, 266, kStripOffsets, 274, 277,
                                   278,          kStripBytes, 284, 292, 293, 317, 320,           322, 323,
                                   kTileOffsets, kTileBytes,  338, 339, 347, 529, 530,           531, 532};

struct Entry {
  uint16_t tag = 0;
  uint16_t type = 0;
  uint64_t count = 0;
  std::vector<std::byte> values;  // as stored; empty if not asked for
};

struct Directory {
  std::vector<Entry> entries;
  uint64_t next = 0;

  const Entry* find(uint16_t tag) const {
    for (const Entry& entry : entries)
      if (entry.tag == tag) return &entry;
    return nullptr;
  }
};

uint64_t bytes_of_type(uint16_t type) {
  constexpr uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

/// Reads directories, classic and BigTIFF, in either byte order.
class Tiff {
 public:
  Tiff(const ByteSource& source, const std::string& name) : source_(source), name_(name) {
    std::byte start[16];
    take(0, {start, 8});
    little_ = start[0] == std::byte{'I'};
    big_ = number({start + 2, 2}) == 43;
    if (big_) take(0, start);
    first_ = big_ ? number({start + 8, 8}) : number({start + 4, 4});
  }

  static bool begins(const ByteSource& source) {
    std::byte start[4];
    if (!source.read(0, start)) return false;
    const std::string_view text(reinterpret_cast<const char*>(start), 4);
    using namespace std::string_view_literals;
    return text == "II*\0"sv || text == "MM\0*"sv || text == "II+\0"sv || text == "MM\0+"sv;
  }

  std::vector<uint64_t> pages() const {
    std::vector<uint64_t> pages;
    std::set<uint64_t> seen;
    for (uint64_t at = first_; at != 0;) {
      if (!seen.insert(at).second) refuse("its chain of pages leads back to itself");
      if (seen.size() > kMostPages) refuse("it has more than " + with_commas(kMostPages) + " pages");
      const Directory directory = read_directory(at, {});
      if (!beside_a_page(directory)) pages.push_back(at);
      at = directory.next;
    }
    if (pages.empty() && first_ == 0) refuse("it holds no page");
    if (pages.empty()) pages.push_back(first_);
    return pages;
  }

  /// A TIFF file that holds only the page whose directory is at `offset`.
  std::vector<std::byte> page_alone(uint64_t offset) const {
    Directory directory = read_directory(offset, kPixelTags);
    std::erase_if(directory.entries, [](const Entry& entry) { return entry.values.empty(); });
    const bool tiles = directory.find(kTileOffsets) != nullptr;
    const Entry* offsets = directory.find(tiles ? kTileOffsets : kStripOffsets);
    const Entry* lengths = directory.find(tiles ? kTileBytes : kStripBytes);
    if (offsets == nullptr || lengths == nullptr || offsets->count != lengths->count)
      refuse("it does not say where its pixels are (old-style JPEG is not read from stacks)");
    const std::vector<uint64_t> from = numbers(*offsets);
    const std::vector<uint64_t> bytes = numbers(*lengths);
    uint64_t sum = 0;
    for (const uint64_t length : bytes) {
      if (length > source_.size() - std::min(sum, source_.size())) refuse("its pixels are not in the file");
      sum += length;
      if (sum > kMostPixelBytes) refuse("a page of more than 2 GiB");
    }
    return assemble(directory, tiles ? kTileOffsets : kStripOffsets, from, bytes);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw DataError(name_ + " is a damaged TIFF: " + why); }

  void take(uint64_t offset, std::span<std::byte> out) const {
    if (!source_.read(offset, out)) refuse("it ends too early");
  }

  uint64_t number(std::span<const std::byte> bytes) const {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i)
      value = value << 8 | std::to_integer<uint64_t>(bytes[little_ ? bytes.size() - 1 - i : i]);
    return value;
  }

  void put(uint64_t value, size_t bytes, std::byte* out) const {
    for (size_t i = 0; i < bytes; ++i) out[little_ ? i : bytes - 1 - i] = static_cast<std::byte>(value >> 8 * i);
  }

  size_t entry_bytes() const { return big_ ? 20 : 12; }
  size_t word() const { return big_ ? 8 : 4; }

  /// Reads the values of `wanted` entries and of NewSubfileType.
  Directory read_directory(uint64_t at, std::span<const uint16_t> wanted) const {
    std::byte head[8];
    const size_t head_bytes = big_ ? 8 : 2;
    take(at, {head, head_bytes});
    const uint64_t count = number({head, head_bytes});
    if (count > 4096) refuse("a directory of " + with_commas(static_cast<int64_t>(count)) + " entries");
    std::vector<std::byte> table(count * entry_bytes() + word());
    take(at + head_bytes, table);
    Directory directory;
    uint64_t held = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const std::byte* raw = table.data() + i * entry_bytes();
      Entry entry;
      entry.tag = static_cast<uint16_t>(number({raw, 2}));
      if (entry.tag != kNewSubfileType && std::ranges::count(wanted, entry.tag) == 0) continue;
      if (directory.find(entry.tag) != nullptr) continue;  // the first one counts
      entry.type = static_cast<uint16_t>(number({raw + 2, 2}));
      entry.count = number({raw + 4, word()});
      if (entry.tag == kNewSubfileType && entry.count != 1) continue;
      read_values(raw + 4 + word(), entry, held);
      directory.entries.push_back(std::move(entry));
    }
    directory.next = number({table.data() + count * entry_bytes(), word()});
    return directory;
  }

  void read_values(const std::byte* place, Entry& entry, uint64_t& held) const {
    const uint64_t unit = bytes_of_type(entry.type);
    if (unit == 0) return;
    if (entry.count > source_.size() / unit) refuse("a list of values is longer than the file");
    if (entry.count * unit > kMostValues - held) refuse("its lists of values have more than 16 MiB");
    held += entry.count * unit;
    entry.values.resize(entry.count * unit);
    if (entry.values.size() <= word()) {
      std::copy_n(place, entry.values.size(), entry.values.begin());
    } else {
      take(number({place, word()}), entry.values);
    }
  }

  std::vector<uint64_t> numbers(const Entry& entry) const {
    const size_t unit = bytes_of_type(entry.type);
    std::vector<uint64_t> values;
    for (size_t at = 0; at < entry.values.size(); at += unit)
      values.push_back(number({entry.values.data() + at, unit}));
    return values;
  }

  static bool beside_a_page(const Directory& directory) {
    const Entry* type = directory.find(kNewSubfileType);
    if (type == nullptr || type->values.empty()) return false;
    constexpr std::byte kPreviewOrMask{1 | 4};  // in the last or the first byte; the others are 0
    return ((type->values.front() | type->values.back()) & kPreviewOrMask) != std::byte{0};
  }

  /// Header, directory, long values, pixels. The offsets of the pixels become numbers of `word` size.
  std::vector<std::byte> assemble(Directory& directory, uint16_t place_tag, const std::vector<uint64_t>& from,
                                  const std::vector<uint64_t>& bytes) const {
    Entry& places = *std::find_if(directory.entries.begin(), directory.entries.end(),
                                  [&](const Entry& entry) { return entry.tag == place_tag; });
    places.type = big_ ? 16 : 4;
    places.values.resize(from.size() * word());
    const size_t header = big_ ? 16 : 8;
    const size_t head_bytes = big_ ? 8 : 2;
    size_t values_at = header + head_bytes + directory.entries.size() * entry_bytes() + word();
    size_t pixels_at = values_at;
    for (const Entry& entry : directory.entries)
      if (entry.values.size() > word()) pixels_at += entry.values.size() + entry.values.size() % 2;
    size_t size = pixels_at;
    for (size_t i = 0; i < from.size(); ++i) {
      put(size, word(), places.values.data() + i * word());
      size += bytes[i];
    }
    if (!big_ && size > UINT32_MAX) refuse("a page of more than 4 GB");
    std::vector<std::byte> out(size);
    take(0, {out.data(), header});
    put(header, word(), out.data() + (big_ ? 8 : 4));
    put(directory.entries.size(), head_bytes, out.data() + header);
    std::byte* slot = out.data() + header + head_bytes;
    for (const Entry& entry : directory.entries) {
      put(entry.tag, 2, slot);
      put(entry.type, 2, slot + 2);
      put(entry.count, word(), slot + 4);
      std::byte* target = slot + 4 + word();
      if (entry.values.size() > word()) {
        put(values_at, word(), target);
        target = out.data() + values_at;
        values_at += entry.values.size() + entry.values.size() % 2;
      }
      std::copy(entry.values.begin(), entry.values.end(), target);
      slot += entry_bytes();
    }
    for (size_t i = 0; i < from.size(); ++i) {
      take(from[i], {out.data() + pixels_at, bytes[i]});
      pixels_at += bytes[i];
    }
    return out;
  }

  const ByteSource& source_;
  const std::string& name_;
  bool little_ = true;
  bool big_ = false;
  uint64_t first_ = 0;
};

/// Keeps the pages of the stack that this thread read last. Without that, reading a stack page by page would walk over
/// all directories before each page, which takes an hour for some ten thousand pages. Half a megabyte at most.
const std::vector<uint64_t>& pages_once(const Tiff& tiff, const DiskSource& source) {
  struct Walked {
    DiskSource::Identity identity{};
    std::vector<uint64_t> pages;
  };
  thread_local Walked last;
  const DiskSource::Identity identity = source.identity();
  if (last.pages.empty() || last.identity != identity) last = {identity, tiff.pages()};
  return last.pages;
}

}  // namespace

bool begins_as_tiff(const ByteSource& source) { return Tiff::begins(source); }

int64_t count_tiff_pages(const ByteSource& source, const std::string& name) {
  try {
    return static_cast<int64_t>(Tiff(source, name).pages().size());
  } catch (const DataError&) {
    return 1;
  }
}

std::vector<uint64_t> tiff_pages(std::span<const std::byte> file, const std::string& name) {
  const MemorySource source(file);
  return Tiff(source, name).pages();
}

std::vector<std::byte> tiff_page_alone(const DiskSource& source, int64_t page, const std::string& name) {
  const Tiff tiff(source, name);
  const std::vector<uint64_t>& pages = pages_once(tiff, source);
  if (page > static_cast<int64_t>(pages.size()))
    throw DataError(name + ": the file has " + count_of(static_cast<int64_t>(pages.size()), "page"));
  return tiff.page_alone(pages[static_cast<size_t>(page - 1)]);
}

}  // namespace dtrain
