// TIFF files are written by libtiff into memory, in every kind that is read, and compared sample by sample; then
// damaged.
#include <tiffio.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"
#include "picture_damage.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"
#include "temp_folder.hpp"

using namespace dtrain;
using dtrain::test::error_of;
using dtrain::test::TempFolder;
using test::bytes_of;
using test::holds;

namespace {

constexpr uint32_t kLineWidth = 19;  // neither a multiple of 8 nor of a tile
constexpr uint32_t kLines = 21;

struct TiffKind {
  uint16_t photometric = PHOTOMETRIC_MINISBLACK;
  uint16_t bits = 8;
  uint16_t samples = 1;
  uint16_t compression = COMPRESSION_NONE;
  bool tiled = false;
  bool apart = false;       // planes
  const char* mode = "wl";  // b: big-endian, 8: BigTIFF
  uint16_t extra = EXTRASAMPLE_UNASSALPHA;
  uint16_t orientation = ORIENTATION_TOPLEFT;
  uint32_t width = kLineWidth;
  uint32_t height = kLines;
  int shift = 0;  // of the pattern, so that pages differ
  std::function<void(TIFF*)> more = nullptr;
};

int colours_of(const TiffKind& kind) { return kind.photometric == PHOTOMETRIC_RGB ? 3 : 1; }

uint32_t sample_at(const TiffKind& kind, uint32_t x, uint32_t y, uint32_t s) {
  const uint32_t mixed =
      (x * 2654435761u + y * 40503u * 31u + s * 7919u * 53u + static_cast<uint32_t>(kind.shift)) >> 5;
  return (mixed + x + y) & ((1u << kind.bits) - 1);
}

uint16_t palette_at(uint32_t number, int c) {
  return static_cast<uint16_t>((number * 37 + static_cast<uint32_t>(c) * 91) << 8);
}

/// Memory that libtiff writes to, with seeks.
struct Memory {
  std::string bytes;
  size_t at = 0;
};

TIFF* open_memory(Memory& memory, const char* mode) {
  const auto of = [](thandle_t handle) -> Memory& { return *static_cast<Memory*>(handle); };
  static const auto memory_of = of;
  return TIFFClientOpen(
      "t.tif", mode, &memory,
      [](thandle_t h, void* out, tmsize_t n) -> tmsize_t {
        Memory& m = memory_of(h);
        n = std::min<tmsize_t>(n, static_cast<tmsize_t>(m.bytes.size() - std::min(m.at, m.bytes.size())));
        std::memcpy(out, m.bytes.data() + m.at, static_cast<size_t>(n));
        m.at += static_cast<size_t>(n);
        return n;
      },
      [](thandle_t h, void* in, tmsize_t n) -> tmsize_t {
        Memory& m = memory_of(h);
        if (m.bytes.size() < m.at + static_cast<size_t>(n)) m.bytes.resize(m.at + static_cast<size_t>(n));
        std::memcpy(m.bytes.data() + m.at, in, static_cast<size_t>(n));
        m.at += static_cast<size_t>(n);
        return n;
      },
      [](thandle_t h, toff_t offset, int from) -> toff_t {
        Memory& m = memory_of(h);
        return m.at = offset + (from == SEEK_CUR ? m.at : from == SEEK_END ? m.bytes.size() : 0);
      },
      [](thandle_t) { return 0; }, [](thandle_t h) -> toff_t { return memory_of(h).bytes.size(); },
      [](thandle_t, void**, toff_t*) { return 0; }, [](thandle_t, void*, toff_t) {});
}

/// A strip or tile of the pattern, packed; plane < 0: all samples together.
std::string block_of(const TiffKind& kind, uint32_t x0, uint32_t y0, uint32_t width, uint32_t height, int plane) {
  std::string out;
  for (uint32_t y = y0; y < y0 + height; ++y) {
    uint32_t bit = 0;
    for (uint32_t x = x0; x < x0 + width; ++x)
      for (uint32_t s = plane < 0 ? 0 : static_cast<uint32_t>(plane);
           s < (plane < 0 ? kind.samples : static_cast<uint32_t>(plane) + 1); ++s) {
        const uint32_t value = sample_at(kind, x, y, s);
        if (kind.bits == 16) {
          const auto word = static_cast<uint16_t>(value);
          out.append(reinterpret_cast<const char*>(&word), 2);
        } else {
          if (bit % 8 == 0) out += '\0';
          out.back() = static_cast<char>(out.back() | static_cast<int>(value << (8 - kind.bits - bit % 8)));
          bit += kind.bits;
        }
      }
  }
  return out;
}

void write_page(TIFF* tiff, const TiffKind& kind) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kind.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kind.height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, kind.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, kind.samples);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, kind.photometric);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, kind.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, kind.apart ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  TIFFSetField(tiff, TIFFTAG_ORIENTATION, kind.orientation);
  if (kind.samples > colours_of(kind) && kind.photometric != PHOTOMETRIC_SEPARATED)
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &kind.extra);
  std::vector<uint16_t> maps[3];
  for (int c = 0; c < 3; ++c)
    for (uint32_t i = 0; i < 1u << kind.bits; ++i) maps[c].push_back(palette_at(i, c));
  if (kind.photometric == PHOTOMETRIC_PALETTE)
    TIFFSetField(tiff, TIFFTAG_COLORMAP, maps[0].data(), maps[1].data(), maps[2].data());
  const uint32_t w = kind.tiled ? 16 : kind.width, h = kind.tiled ? 16 : 8;
  if (kind.tiled) TIFFSetField(tiff, TIFFTAG_TILEWIDTH, w);
  if (kind.tiled) TIFFSetField(tiff, TIFFTAG_TILELENGTH, h);
  if (!kind.tiled) TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, h);
  if (kind.more) kind.more(tiff);
  uint32_t number = 0;
  for (int plane = kind.apart ? 0 : -1; plane < (kind.apart ? kind.samples : 0); ++plane)
    for (uint32_t y = 0; y < kind.height; y += h)
      for (uint32_t x = 0; x < kind.width; x += w, ++number) {
        std::string block = block_of(kind, x, y, w, kind.tiled ? h : std::min(h, kind.height - y), plane);
        const auto size = static_cast<tmsize_t>(block.size());
        REQUIRE((kind.tiled ? TIFFWriteEncodedTile(tiff, number, block.data(), size)
                            : TIFFWriteEncodedStrip(tiff, number, block.data(), size)) == size);
      }
}

std::string tiff_of(const std::vector<TiffKind>& pages) {
  Memory memory;
  TIFF* tiff = open_memory(memory, pages[0].mode);
  for (const TiffKind& page : pages) {
    write_page(tiff, page);
    REQUIRE(TIFFWriteDirectory(tiff) == 1);
  }
  TIFFClose(tiff);
  return memory.bytes;
}

std::string tiff_refusal(const std::string& file) {
  return error_of<DataError>([&] { decode_image(bytes_of(file), "t.tif"); });
}

/// Sample `c` of a pixel as decode_image() promises it.
uint32_t expected_at(const TiffKind& kind, uint32_t x, uint32_t y, int c) {
  if (kind.photometric == PHOTOMETRIC_PALETTE) return palette_at(sample_at(kind, x, y, 0), c) >> 8;
  uint32_t value = sample_at(kind, x, y, static_cast<uint32_t>(c));
  const uint32_t white = (1u << kind.bits) - 1;
  if (kind.photometric == PHOTOMETRIC_MINISWHITE) value = white - value;
  if (kind.samples > colours_of(kind) && kind.extra == EXTRASAMPLE_ASSOCALPHA) {
    const uint32_t alpha = sample_at(kind, x, y, kind.samples - 1u);
    if (alpha > 0) value = std::min(white, value * white / alpha);
  }
  return kind.bits < 8 ? value * 255 / white : value;
}

void check_pixels_of(const Image& image, const TiffKind& kind) {
  const int channels = kind.photometric == PHOTOMETRIC_PALETTE ? 3 : colours_of(kind);
  REQUIRE((image.width == kind.width && image.height == kind.height && image.channels == channels));
  REQUIRE(image.bits == (kind.bits == 16 ? 16 : 8));
  int wrong = 0;
  size_t at = 0;
  for (uint32_t y = 0; y < kind.height; ++y)
    for (uint32_t x = 0; x < kind.width; ++x)
      for (int c = 0; c < channels; ++c, ++at)
        wrong += (image.bits == 16 ? image.words[at] : image.bytes[at]) != expected_at(kind, x, y, c);
  CHECK(wrong == 0);
}

std::vector<TiffKind> lossless_kinds() {
  std::vector<TiffKind> kinds;
  const std::vector<std::tuple<uint16_t, uint16_t, std::vector<int>>> types = {
      {PHOTOMETRIC_MINISBLACK, 1, {1, 2, 4, 8, 16}},
      {PHOTOMETRIC_MINISWHITE, 1, {1, 2, 4, 8, 16}},
      {PHOTOMETRIC_PALETTE, 1, {1, 2, 4, 8}},
      {PHOTOMETRIC_MINISBLACK, 2, {8, 16}},
      {PHOTOMETRIC_RGB, 3, {8, 16}},
      {PHOTOMETRIC_RGB, 4, {8, 16}}};
  for (const auto& [photometric, samples, depths] : types)
    for (const int bits : depths)
      for (const uint16_t compression :
           {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS})
        for (const bool tiled : {false, true})
          for (const bool apart : {false, true}) {
            if (apart && samples == 1) continue;
            for (const char* mode : {"wl", "wb", "w8"})
              for (const int extra : {EXTRASAMPLE_UNASSALPHA, EXTRASAMPLE_ASSOCALPHA}) {
                if (extra == EXTRASAMPLE_ASSOCALPHA && samples % 2 == 1) continue;
                TiffKind kind{photometric, static_cast<uint16_t>(bits), samples, compression, tiled, apart, mode};
                kind.extra = static_cast<uint16_t>(extra);
                kinds.push_back(kind);
              }
          }
  return kinds;
}

std::string name_of(const TiffKind& kind) {
  return "photometric " + std::to_string(kind.photometric) + ", " + std::to_string(kind.samples) + " × " +
         std::to_string(kind.bits) + " bits, compression " + std::to_string(kind.compression) +
         (kind.tiled ? ", tiles" : ", strips") + (kind.apart ? ", planes apart, " : ", ") + kind.mode;
}

}  // namespace

TEST_CASE("TIFF of every kind that loses nothing gives the samples that were stored") {
  const std::vector<TiffKind> kinds = lossless_kinds();
  CHECK(kinds.size() == 816);
  for (const TiffKind& kind : kinds) {
    INFO(name_of(kind));
    const std::string file = tiff_of({kind});
    const Image image = decode_image(bytes_of(file), "t.tif");
    check_pixels_of(image, kind);
    const ImageHeader header = read_image_header(bytes_of(file), "t.tif");
    CHECK((header.width == image.width && header.height == image.height && header.channels == image.channels &&
           header.bits == image.bits));
  }
}

TEST_CASE("fax compressions and the predictor of LZW and deflate are undone") {
  for (const uint16_t fax : {COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3, COMPRESSION_CCITTFAX4}) {
    const TiffKind kind{PHOTOMETRIC_MINISWHITE, 1, 1, fax};
    check_pixels_of(decode_image(bytes_of(tiff_of({kind})), "t.tif"), kind);
  }
  for (const uint16_t compression : {COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE})
    for (const uint16_t bits : {8, 16}) {
      TiffKind kind{PHOTOMETRIC_RGB, bits, 3, compression};
      kind.more = [](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_PREDICTOR, PREDICTOR_HORIZONTAL); };
      check_pixels_of(decode_image(bytes_of(tiff_of({kind})), "t.tif"), kind);
    }
}

TEST_CASE("JPEG inside of TIFF, grey, RGB and YCbCr, is near what was stored") {
  for (const bool tiled : {false, true})
    for (const uint16_t photometric : {PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_RGB, PHOTOMETRIC_YCBCR}) {
      const auto colours = static_cast<uint16_t>(photometric == PHOTOMETRIC_MINISBLACK ? 1 : 3);
      Memory memory;
      TIFF* tiff = open_memory(memory, "w");
      for (const auto& [tag, value] :
           std::vector<std::pair<uint32_t, uint32_t>>{{TIFFTAG_IMAGEWIDTH, 32},
                                                      {TIFFTAG_IMAGELENGTH, 32},
                                                      {TIFFTAG_BITSPERSAMPLE, 8},
                                                      {TIFFTAG_SAMPLESPERPIXEL, colours},
                                                      {TIFFTAG_PHOTOMETRIC, photometric},
                                                      {TIFFTAG_PLANARCONFIG, 1},
                                                      {TIFFTAG_COMPRESSION, COMPRESSION_JPEG},
                                                      {TIFFTAG_JPEGQUALITY, 95}})
        TIFFSetField(tiff, tag, value);
      if (photometric == PHOTOMETRIC_YCBCR) TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      TIFFSetField(tiff, tiled ? TIFFTAG_TILEWIDTH : TIFFTAG_ROWSPERSTRIP, 16);
      if (tiled) TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
      const int64_t w = tiled ? 16 : 32;
      const auto smooth = [](int64_t y, int64_t x, int64_t c) {
        return static_cast<uint8_t>(40 + 4 * y + 2 * x + 8 * c);
      };
      for (uint32_t number = 0; number < (tiled ? 4 : 2); ++number) {
        const int64_t y0 = tiled ? number / 2 * 16 : number * 16, x0 = tiled ? number % 2 * 16 : 0;
        std::vector<uint8_t> block;
        for (int64_t i = 0; i < 16 * w; ++i)
          for (int64_t c = 0; c < colours; ++c) block.push_back(smooth(y0 + i / w, x0 + i % w, c));
        const auto size = static_cast<tmsize_t>(block.size());
        if (tiled) TIFFWriteEncodedTile(tiff, number, block.data(), size);
        if (!tiled) TIFFWriteEncodedStrip(tiff, number, block.data(), size);
      }
      TIFFClose(tiff);
      const Image image = decode_image(bytes_of(memory.bytes), "t.tif");
      REQUIRE((image.width == 32 && image.height == 32 && image.channels == colours));
      int most = 0;
      for (int64_t i = 0; i < 32 * 32 * colours; ++i)
        most = std::max(most, std::abs(image.bytes[static_cast<size_t>(i)] -
                                       smooth(i / colours / 32, i / colours % 32, i % colours)));
      INFO("photometric " << photometric << ", tiled " << tiled);
      CHECK(most <= 12);
    }
}

TEST_CASE("the Orientation field turns the picture") {
  for (uint16_t orientation = 1; orientation <= 8; ++orientation) {
    TiffKind kind;
    kind.orientation = orientation;
    const std::string file = tiff_of({kind});
    const Image image = decode_image(bytes_of(file), "t.tif");
    const bool turned = orientation >= 5;
    REQUIRE(image.width == (turned ? kLines : kLineWidth));
    CHECK(read_image_header(bytes_of(file), "t.tif").width == image.width);
    int wrong = 0;
    for (uint32_t row = 0; row < kLines; ++row)
      for (uint32_t column = 0; column < kLineWidth; ++column) {
        // The specification names the side of the picture on which row 0 and column 0 lie.
        const bool row_from_end = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
        const bool column_from_end = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
        const uint32_t r = row_from_end ? kLines - 1 - row : row,
                       c = column_from_end ? kLineWidth - 1 - column : column;
        const int64_t place = turned ? c * image.width + r : r * image.width + c;
        wrong += image.bytes[static_cast<size_t>(place)] != sample_at(kind, column, row, 0);
      }
    INFO("orientation " << orientation);
    CHECK(wrong == 0);
  }
}

TEST_CASE("kinds of TIFF that are not read are named") {
  const auto set = [](uint32_t tag, int value) { return [=](TIFF* tiff) { TIFFSetField(tiff, tag, value); }; };
  TiffKind floats, signed_ones{PHOTOMETRIC_MINISBLACK, 16}, planes{PHOTOMETRIC_MINISBLACK, 8, 3},
      lab{PHOTOMETRIC_CIELAB, 8, 3};
  floats.more = set(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_IEEEFP);
  signed_ones.more = set(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_INT);
  CHECK(holds(tiff_refusal(tiff_of({floats})), "is a TIFF of floats"));
  CHECK(holds(tiff_refusal(tiff_of({signed_ones})), "is a TIFF of signed"));
  CHECK(holds(tiff_refusal(tiff_of({planes})), "is a TIFF of 3 grey channels"));
  CHECK(holds(tiff_refusal(tiff_of({lab})), "L*a*b*"));
  CHECK(holds(tiff_refusal(tiff_of({{PHOTOMETRIC_SEPARATED, 8, 4}})), "CMYK"));
  CHECK(holds(tiff_refusal(tiff_of({{PHOTOMETRIC_PALETTE, 16}})), "palette of 16 bits"));
  std::string deep = tiff_of({{PHOTOMETRIC_MINISBLACK, 8}});
  const size_t field = deep.find(std::string("\x02\x01\x03\0\x01\0\0\0\x08\0", 10));
  REQUIRE(field != std::string::npos);
  deep[field + 8] = 12;
  CHECK(holds(tiff_refusal(deep), "12 bits"));
}

TEST_CASE("a stack of ImageJ's that only its description tells of is refused") {
  TiffKind kind;
  kind.more = [](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, "ImageJ=1.53\nimages=30\nslices=30\n"); };
  CHECK(holds(tiff_refusal(tiff_of({kind})), "a stack of 30 pictures"));
}

TEST_CASE("pages of a stack are counted, and read one by one") {
  TempFolder folder;
  std::vector<TiffKind> pages;
  for (const char* mode : {"wl", "wb", "wl8", "wb8"}) {
    pages.clear();
    for (const TiffKind& kind :
         {TiffKind{}, TiffKind{PHOTOMETRIC_MINISBLACK, 16, 1, COMPRESSION_ADOBE_DEFLATE, true},
          TiffKind{PHOTOMETRIC_RGB, 8, 3, COMPRESSION_LZW, false, true}, TiffKind{PHOTOMETRIC_PALETTE, 4}}) {
      pages.push_back(kind);
      pages.back().mode = mode;
      pages.back().shift = static_cast<int>(pages.size()) * 1000;
      pages.back().height = 5 + static_cast<uint32_t>(pages.size()) * 8;
    }
    TiffKind preview;  // in the middle; does not count as a page
    preview.more = [](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, FILETYPE_REDUCEDIMAGE); };
    std::vector<TiffKind> all = pages;
    all.insert(all.begin() + 1, preview);
    const std::string path = folder.file("stack.tif");
    const std::string file = tiff_of(all);
    dtrain::test::write_plainly(path, file);
    CHECK(count_pages(path) == 4);
    for (size_t i = 0; i < 4; ++i) {
      INFO(mode << ", page " << i + 1);
      const std::string name = path + "#" + std::to_string(i + 1);
      const std::vector<std::byte> alone = read_picture_file(name);
      CHECK(alone.size() < file.size());
      check_pixels_of(decode_image(alone, name), pages[i]);
    }
    CHECK(holds(error_of<DataError>([&] { read_picture_file(path + "#5"); }), "stack.tif#5: the file has 4 pages"));
    CHECK(holds(tiff_refusal(file),
                "t.tif is a stack of 4 pages, but one picture is read; name one of a file as FILE#1"));
  }
}

TEST_CASE("a preview before the picture is passed over") {
  TiffKind preview, picture{PHOTOMETRIC_RGB, 8, 3};
  preview.more = [](TIFF* tiff) { TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, FILETYPE_REDUCEDIMAGE); };
  check_pixels_of(decode_image(bytes_of(tiff_of({preview, picture})), "t.tif"), picture);
}

TEST_CASE("a chain of pages that has no end is refused") {
  std::string file = tiff_of({TiffKind{}, TiffKind{}});
  uint32_t first = 0;
  std::memcpy(&first, file.data() + 4, 4);
  uint16_t entries = 0;
  std::memcpy(&entries, file.data() + first, 2);
  uint32_t second = 0;
  std::memcpy(&second, file.data() + first + 2 + 12u * entries, 4);
  std::memcpy(file.data() + second + 2 + 12u * entries, &first, 4);
  CHECK(holds(tiff_refusal(file), "leads back to itself"));
  std::memcpy(file.data() + first + 2 + 12u * entries, "\xFF\xFF\xFF\x7F", 4);
  CHECK(holds(tiff_refusal(file), "ends too early"));
  TempFolder folder;
  dtrain::test::write_plainly(folder.file("a.tif"), file);
  CHECK(count_pages(folder.file("a.tif")) == 1);  // reported by decoding
  CHECK_THROWS_AS(read_picture_file(folder.file("a.tif#1")), DataError);
  dtrain::test::write_plainly(folder.file("b.tif"), "no TIFF");
  CHECK(count_pages(folder.file("b.tif")) == 1);
  CHECK(holds(error_of<DataError>([&] { read_picture_file(folder.file("b.tif#1")); }),
              "b.tif is neither a TIFF nor a DICOM file"));
  CHECK_THROWS_AS(read_picture_file(folder.file("c.tif#1")), MissingError);
}

TEST_CASE("a page is named by a number behind the name of a TIFF file") {
  const std::tuple<const char*, const char*, int64_t> cases[] = {
      {"a/b.tif#7", "a/b.tif", 7}, {"b.TIFF#12", "b.TIFF", 12}, {"b.tif", "b.tif", 0},
      {"b.png#7", "b.png#7", 0},   {"b.tif#0", "b.tif#0", 0},   {"b.tif#07", "b.tif#07", 0},
      {"b.tif#", "b.tif#", 0},     {"b.tif#1x", "b.tif#1x", 0}, {"#1", "#1", 0},
      {"a#1.tif", "a#1.tif", 0},   {"b.tif#-1", "b.tif#-1", 0}};
  for (const auto& [path, file, page] : cases) {
    INFO(path);
    CHECK(picture_path(path).file == file);
    CHECK(picture_path(path).page == page);
  }
}

TEST_CASE("a small TIFF that promises a huge picture is refused before memory is taken") {
  const auto patched = [](TiffKind kind, uint16_t tag, uint32_t value) {
    kind.width = kind.height = 70'000 / 1000;  // 70: stored as SHORT or LONG, told by the type
    std::string file = tiff_of({kind});
    uint32_t at = 0;
    std::memcpy(&at, file.data() + 4, 4);
    uint16_t entries = 0;
    std::memcpy(&entries, file.data() + at, 2);
    for (at += 2; entries > 0; --entries, at += 12) {
      uint16_t found = 0;
      std::memcpy(&found, file.data() + at, 2);
      if (found != tag) continue;
      const uint16_t type = TIFF_LONG;
      std::memcpy(file.data() + at + 2, &type, 2);
      std::memcpy(file.data() + at + 8, &value, 4);
    }
    return file;
  };
  const dtrain::test::MemoryWatch memory;
  for (const uint16_t compression :
       {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS}) {
    TiffKind kind{PHOTOMETRIC_RGB, 16, 3, compression};
    CHECK(holds(tiff_refusal(patched(kind, TIFFTAG_IMAGEWIDTH, 3'000'000)), "too short"));
    CHECK(holds(tiff_refusal(patched(kind, TIFFTAG_IMAGELENGTH, 3'000'000)), "too short"));
    CHECK(
        holds(tiff_refusal(patched(kind, TIFFTAG_IMAGELENGTH, 4'000'000'000)), "t.tif"));  // libtiff refuses it as well
    kind.tiled = true;
    CHECK(holds(tiff_refusal(patched(kind, TIFFTAG_TILEWIDTH, 10'000'000)), "too short"));
    CHECK(holds(tiff_refusal(patched(kind, TIFFTAG_TILELENGTH, 4'000'000'000)), "allowed"));
  }
  CHECK(memory.grown_mb() < 40);
}

TEST_CASE("a TIFF cut anywhere or with a byte changed is refused or still a picture of its size") {
  for (const TiffKind& kind :
       {TiffKind{}, TiffKind{PHOTOMETRIC_RGB, 16, 3, COMPRESSION_LZW, true, true},
        TiffKind{PHOTOMETRIC_PALETTE, 4, 1, COMPRESSION_PACKBITS},
        TiffKind{PHOTOMETRIC_MINISWHITE, 1, 1, COMPRESSION_CCITTFAX4},
        TiffKind{PHOTOMETRIC_MINISBLACK, 16, 1, COMPRESSION_ADOBE_DEFLATE, false, false, "wb8"}}) {
    INFO(name_of(kind));
    dtrain::test::check_damaged(tiff_of({kind}), "t.tif", 2000);
  }
}

TEST_CASE("a page of a damaged stack is refused or still a picture") {
  TempFolder folder;
  const std::string path = folder.file("s.tif");
  const std::string file = tiff_of({TiffKind{}, TiffKind{PHOTOMETRIC_RGB, 8, 3, COMPRESSION_LZW}, TiffKind{}});
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = file;
    for (unsigned k = 0; k <= random() % 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    dtrain::test::write_plainly(path, damaged);
    CHECK(count_pages(path) <= 3);
    try {
      decode_image(read_picture_file(path + "#2"), path, ImageLimits{1 << 22});
    } catch (const DataError& error) {
      if (!std::string(error.what()).starts_with(path)) FAIL(error.what());
    }
  }
}
