// DICOM PS3.5: elements (7.1), sequences and items (7.5), encapsulated pixels (A.4); PS3.10: the file's meta group.
#include "dtrain/io/pictures/dicom_frames.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

constexpr uint64_t kMeta = 132;  // preamble and "DICM"
constexpr uint32_t kUndefined = 0xFFFFFFFF;
constexpr int64_t kMostFrames = 65'535;
constexpr uint64_t kMostBeforePixels = uint64_t{64} << 20;  // of what stands before the pixels
constexpr uint64_t kMostFrameBytes = uint64_t{2} << 30;     // more than ImageLimits permits of pixels

enum DicomTag : uint32_t {
  kTransferSyntax = 0x00020010,
  kSamples = 0x00280002,
  kMeaning = 0x00280004,
  kFrames = 0x00280008,
  kRows = 0x00280010,
  kColumns = 0x00280011,
  kBitsAllocated = 0x00280100,
  kPerFrame = 0x52009230,
  kPixels = 0x7FE00010,
  kItem = 0xFFFEE000,
  kEndOfItem = 0xFFFEE00D,
  kEndOfSequence = 0xFFFEE0DD,
};

/// How elements are written.
struct Syntax {
  bool explicit_vr = true;
  bool big = false;
};

struct Element {
  uint32_t tag = 0;
  std::string vr;      // "" in implicit VR
  uint64_t begin = 0;  // of its tag
  uint64_t value = 0;  // where its value begins
  uint32_t length = 0;

  uint64_t end() const { return value + length; }
};

/// Reads some kilobytes at a time: elements are small and stand close together.
class Walk {
 public:
  Walk(const ByteSource& source, const std::string& name) : source_(source), name_(name) {}

  [[noreturn]] void refuse(const std::string& why) const { throw DataError(name_ + ": DICOM: " + why); }

  std::span<const std::byte> at(uint64_t offset, size_t count) {
    if (offset > source_.size() || source_.size() - offset < count) refuse("it ends too early");
    if (offset < begin_ || offset + count > begin_ + window_.size()) {
      constexpr uint64_t kWindow = 16 << 10;
      begin_ = offset;
      window_.resize(std::min(std::max<uint64_t>(kWindow, count), source_.size() - offset));
      if (!source_.read(offset, window_)) refuse("it ends too early");
    }
    return std::span(window_).subspan(offset - begin_, count);
  }

  uint64_t number(uint64_t offset, size_t bytes, bool big) {
    uint64_t value = 0;
    const auto raw = at(offset, bytes);
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<uint64_t>(raw[big ? i : bytes - 1 - i]);
    return value;
  }

  Element element(uint64_t offset, Syntax syntax) {
    Element found;
    found.begin = offset;
    found.tag = static_cast<uint32_t>(number(offset, 2, syntax.big) << 16 | number(offset + 2, 2, syntax.big));
    const bool delimits = found.tag >> 16 == 0xFFFE;
    if (!syntax.explicit_vr || delimits) {
      found.length = static_cast<uint32_t>(number(offset + 4, 4, syntax.big));
      found.value = offset + 8;
      return found;
    }
    const auto vr = at(offset + 4, 2);
    found.vr = {static_cast<char>(vr[0]), static_cast<char>(vr[1])};
    constexpr std::string_view kWide = "OB OD OF OL OV OW SQ SV UC UN UR UT UV";
    const size_t place = kWide.find(found.vr);
    const bool wide = place != std::string_view::npos && place % 3 == 0;
    found.length = static_cast<uint32_t>(wide ? number(offset + 8, 4, syntax.big) : number(offset + 6, 2, syntax.big));
    found.value = offset + (wide ? 12 : 8);
    return found;
  }

  /// Where the next element begins.
  uint64_t after(const Element& element, Syntax syntax, int depth = 0) {
    if (element.length != kUndefined) {
      if (element.length > source_.size() - element.value) refuse("an element is longer than the file");
      return element.end();
    }
    constexpr int kDeepest = 32;
    if (depth == kDeepest) refuse("its sequences nest too deeply");
    if (element.vr == "UN") syntax = {false, false};  // PS3.5, 6.2.2
    uint64_t at = element.value;
    while (true) {
      const Element item = this->element(at, syntax);
      if (item.tag == kEndOfSequence) return item.value;
      if (item.tag != kItem) refuse("a sequence holds something other than items");
      at = item.length == kUndefined ? after_item(item.value, syntax, depth + 1) : after(item, syntax);
    }
  }

  std::string text(const Element& element) {
    constexpr uint32_t kLongest = 256;
    if (element.length > kLongest) refuse("a text is longer than it can be");
    const auto raw = at(element.value, element.length);
    std::string text(reinterpret_cast<const char*>(raw.data()), raw.size());
    while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.pop_back();
    return text;
  }

  const ByteSource& source() const { return source_; }

 private:
  uint64_t after_item(uint64_t at, Syntax syntax, int depth) {
    while (true) {
      const Element inner = element(at, syntax);
      if (inner.tag == kEndOfItem) return inner.value;
      at = after(inner, syntax, depth);
    }
  }

  const ByteSource& source_;
  const std::string& name_;
  std::vector<std::byte> window_;
  uint64_t begin_ = 0;
};

/// What is known of the file when its pixels are reached.
struct Found {
  Syntax syntax;
  std::string transfer_syntax;
  std::optional<Element> frames;
  std::optional<Element> per_frame;
  Element pixels;
  std::string meaning;
  uint64_t rows = 0, columns = 0, samples = 1, bits = 0;
  int64_t count = 1;
};

int64_t number_of_frames(const std::string& text) {
  const std::string_view digits = trimmed(text);
  int64_t count = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return failed == std::errc() && end == digits.data() + digits.size() && count >= 1 && count <= kMostFrames ? count
                                                                                                             : 1;
}

/// Walks over the elements up to and with `last`, or to the first behind it.
Found walk_to(Walk& walk, uint32_t last) {
  Found found;
  uint64_t at = kMeta;
  Element element = walk.element(at, {});
  for (; element.tag >> 16 == 2; element = walk.element(at, {})) {
    if (element.tag == kTransferSyntax) found.transfer_syntax = walk.text(element);
    at = walk.after(element, {});
  }
  if (found.transfer_syntax == "1.2.840.10008.1.2.1.99") walk.refuse("frames of a deflated file cannot be told apart");
  found.syntax.explicit_vr = found.transfer_syntax != "1.2.840.10008.1.2";
  found.syntax.big = found.transfer_syntax == "1.2.840.10008.1.2.2";
  for (; at < walk.source().size(); at = walk.after(element, found.syntax)) {
    element = walk.element(at, found.syntax);
    if (element.tag > last) break;
    const auto number = [&] { return walk.number(element.value, 2, found.syntax.big); };
    if (element.tag == kFrames) found.count = number_of_frames(walk.text(element));
    if (element.tag == kFrames) found.frames = element;
    if (element.tag == kSamples) found.samples = number();
    if (element.tag == kRows) found.rows = number();
    if (element.tag == kColumns) found.columns = number();
    if (element.tag == kBitsAllocated) found.bits = number();
    if (element.tag == kMeaning) found.meaning = walk.text(element);
    if (element.tag == kPerFrame) found.per_frame = element;
    if (element.tag != last) continue;
    found.pixels = std::move(element);
    break;
  }
  return found;
}

struct Range {
  uint64_t begin = 0;
  uint64_t size = 0;
};

/// Of pixels as they are.
Range plain_frame(Walk& walk, const Found& found, int64_t frame) {
  if (found.bits % 8 != 0 || found.bits == 0) walk.refuse("frames of 1 bit per pixel cannot be told apart");
  const bool halved = found.meaning.starts_with("YBR_FULL_422") || found.meaning.starts_with("YBR_PARTIAL_422");
  const uint64_t size = found.rows * found.columns * (halved ? 2 : found.samples) * (found.bits / 8);
  const uint64_t begin = size * static_cast<uint64_t>(frame - 1);
  if (size == 0 || size > kMostFrameBytes || begin + size > found.pixels.length) walk.refuse("its pixels end early");
  return {found.pixels.value + begin, size};
}

/// The pieces of a frame of compressed pixels: items, of which the first tells where each frame begins.
std::vector<Range> pieces_of(Walk& walk, const Found& found, int64_t frame) {
  std::vector<Range> pieces;
  const Element table = walk.element(found.pixels.value, found.syntax);
  if (table.tag != kItem || table.length == kUndefined) walk.refuse("its compressed pixels do not begin with an item");
  const uint64_t first = walk.after(table, found.syntax);
  uint64_t at = first;
  while (true) {
    const Element item = walk.element(at, found.syntax);
    if (item.tag == kEndOfSequence) break;
    if (item.tag != kItem || item.length == kUndefined) walk.refuse("its compressed pixels are damaged");
    at = walk.after(item, found.syntax);
    pieces.push_back({item.value, item.length});
  }
  const auto index = static_cast<size_t>(frame - 1);
  const auto count = static_cast<size_t>(found.count);
  if (pieces.size() == count) return {pieces[index]};
  if (table.length != 4 * count) walk.refuse("it does not tell where its compressed frames begin");
  const auto place = [&](size_t i) { return first + walk.number(table.value + 4 * i, 4, false) + 8; };
  const uint64_t begin = place(index);
  const uint64_t end = index + 1 < count ? place(index + 1) : at;
  std::erase_if(pieces, [&](const Range& piece) { return piece.begin < begin || piece.begin >= end; });
  if (pieces.empty()) walk.refuse("its table of compressed frames is damaged");
  return pieces;
}

/// The file of one frame while it is written.
class FrameFile {
 public:
  FrameFile(Walk& walk, bool big) : walk_(walk), big_(big) {}

  void copy(Range range) {
    const size_t at = out_.size();
    if (range.size > kMostFrameBytes - std::min<uint64_t>(at, kMostFrameBytes))
      walk_.refuse("a frame of more than 2 GiB");
    out_.resize(at + range.size);
    if (!walk_.source().read(range.begin, std::span(out_).subspan(at))) walk_.refuse("it ends too early");
  }
  void number(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(value >> 8 * (big_ ? bytes - 1 - i : i)));
  }
  void tag(uint32_t tag) {
    number(tag >> 16, 2);
    number(tag & 0xFFFF, 2);
  }
  /// NumberOfFrames, in as many bytes as it had.
  void set_one_frame(uint64_t value, uint32_t length) {
    std::fill_n(out_.begin() + static_cast<std::ptrdiff_t>(value), length, std::byte{' '});
    out_[value] = std::byte{'1'};
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  Walk& walk_;
  bool big_;
  std::vector<std::byte> out_;
};

void write_compressed(FrameFile& out, const std::vector<Range>& pieces) {
  out.tag(kItem);
  out.number(0, 4);  // of one frame nothing needs to be told
  for (const Range& piece : pieces) {
    out.tag(kItem);
    out.number(piece.size, 4);
    out.copy(piece);
  }
  out.tag(kEndOfSequence);
  out.number(0, 4);
}

}  // namespace

bool begins_as_dicom(const ByteSource& source) {
  std::byte mark[4];
  return source.read(kMeta - 4, mark) && std::string_view(reinterpret_cast<const char*>(mark), 4) == "DICM";
}

int64_t count_dicom_frames(const ByteSource& source) {
  const std::string name;
  Walk walk(source, name);
  try {
    constexpr uint64_t kLeast = 8;  // bytes that a frame takes, so that a small file cannot promise many
    const int64_t count = walk_to(walk, kFrames).count;
    return static_cast<uint64_t>(count) > source.size() / kLeast ? 1 : count;
  } catch (const DataError&) {
    return 1;
  }
}

std::vector<std::byte> dicom_frame_alone(const ByteSource& source, int64_t frame, const std::string& name) {
  Walk walk(source, name);
  const Found found = walk_to(walk, kPixels);
  if (found.pixels.tag != kPixels) walk.refuse("it holds no pixels that are whole numbers (PixelData is missing)");
  if (frame > found.count) walk.refuse("the file has " + count_of(found.count, "frame"));
  if (found.pixels.begin > kMostBeforePixels) walk.refuse("more than 64 MiB stand before its pixels");
  const bool compressed = found.pixels.length == kUndefined;
  FrameFile out(walk, found.syntax.big);
  const uint64_t skip = found.per_frame ? found.per_frame->begin : found.pixels.begin;
  out.copy({0, skip});
  if (found.per_frame) {
    const uint64_t behind = walk.after(*found.per_frame, found.syntax);
    out.copy({behind, found.pixels.begin - behind});
  }
  if (found.frames) out.set_one_frame(found.frames->value, found.frames->length);
  out.copy({found.pixels.begin, found.pixels.value - found.pixels.begin - 4});  // tag, and how it is written
  if (compressed) {
    out.number(kUndefined, 4);
    write_compressed(out, pieces_of(walk, found, frame));
    return out.take();
  }
  const Range range = plain_frame(walk, found, frame);
  out.number(range.size + range.size % 2, 4);
  out.copy(range);
  if (range.size % 2 == 1) out.number(0, 1);
  return out.take();
}

}  // namespace dtrain
