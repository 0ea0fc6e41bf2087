// PBM, PGM, PPM (plain and raw) and PAM: https://netpbm.sourceforge.net/doc/
#include <cctype>
#include <optional>
#include <string>
#include <string_view>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

namespace {

/// The checked header; `at` is the offset of the raster.
struct PnmHeader {
  ImageHeader picture;
  int64_t samples = 1;  // per pixel as stored: with alpha, which is dropped
  int64_t most = 1;     // the value of white
  bool bits = false;    // PBM: 1 is black
  bool plain = false;   // in decimal digits
  size_t at = 0;
};

class PnmText {
 public:
  PnmText(std::span<const std::byte> file, const std::string& name)
      : text_(reinterpret_cast<const char*>(file.data()), file.size()), name_(name) {}

  /// The next number; white space and comments before it are skipped.
  int64_t number(const std::string& what) {
    skip_space();
    const std::string_view digits = take([](unsigned char c) { return std::isdigit(c) != 0; });
    if (digits.empty() || digits.size() > 10) refuse(what + " is not a valid number");
    return std::stoll(std::string(digits));
  }

  /// A 0 or 1, which needs no space around it.
  int64_t bit() {
    skip_space();
    if (at_ >= text_.size()) refuse("the file ends too early");
    const char c = text_[at_++];
    if (c != '0' && c != '1') refuse("a pixel is neither 0 nor 1");
    return c - '0';
  }

  std::string_view line() {
    const std::string_view found = take([](unsigned char c) { return c != '\n'; });
    if (at_ >= text_.size()) refuse("the header ends too early");
    ++at_;
    return trimmed(found);
  }

  /// The one white-space character between a raw header and its raster.
  void one_space() {
    if (at_ >= text_.size() || !space(text_[at_])) refuse("the header ends too early");
    ++at_;
  }

  void at_end() {
    skip_space();
    if (at_ < text_.size()) refuse("bytes follow the picture");
  }

  void go_to(size_t at) { at_ = at; }
  size_t at() const { return at_; }
  size_t rest() const { return text_.size() - at_; }
  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(text_.data()) + at_; }

  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(name_ + " is a damaged PBM, PGM, PPM or PAM: " + why);
  }

 private:
  static bool space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

  template <typename Test>
  std::string_view take(const Test& test) {
    const size_t begin = at_;
    while (at_ < text_.size() && test(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void skip_space() {
    while (at_ < text_.size() && (space(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#') take([](unsigned char c) { return c != '\n'; });
      if (at_ < text_.size()) ++at_;
    }
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

void read_pam_header(PnmText& text, PnmHeader& header) {
  std::optional<int64_t> width, height, depth, most;
  for (std::string_view line = text.line(); line != "ENDHDR"; line = text.line()) {
    const size_t gap = std::min(line.find(' '), line.size());
    const std::string_view key = line.substr(0, gap);
    const std::string value(trimmed(line.substr(gap)));
    std::optional<int64_t>* field = key == "WIDTH"    ? &width
                                    : key == "HEIGHT" ? &height
                                    : key == "DEPTH"  ? &depth
                                    : key == "MAXVAL" ? &most
                                                      : nullptr;
    if (field == nullptr) continue;  // TUPLTYPE adds nothing to DEPTH
    const bool digits =
        !value.empty() && value.size() <= 10 && value.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) text.refuse(std::string(key) + " is not a valid number");
    *field = std::stoll(value);
  }
  if (!width || !height || !depth || !most) text.refuse("WIDTH, HEIGHT, DEPTH or MAXVAL is missing");
  if (*depth < 1 || *depth > 4) text.refuse(std::to_string(*depth) + " channels; 1 to 4 are read");
  header.picture.width = *width;
  header.picture.height = *height;
  header.samples = *depth;
  header.most = *most;
}

PnmHeader checked_header(PnmText& text, const std::string& name, const ImageLimits& limits) {
  PnmHeader header;
  const char kind = static_cast<char>(text.bytes()[1]);
  text.go_to(2);
  header.plain = kind <= '3';
  header.bits = kind == '1' || kind == '4';
  if (kind == '7') {
    read_pam_header(text, header);
  } else {
    header.picture.width = text.number("the width");
    header.picture.height = text.number("the height");
    if (!header.bits) header.most = text.number("the value of white");
    header.samples = kind == '3' || kind == '6' ? 3 : 1;
    if (!header.plain) text.one_space();
  }
  if (header.most < 1 || header.most > 65535)
    text.refuse("white is " + std::to_string(header.most) + "; it must be 1 to 65535");
  header.picture.channels = header.samples < 3 ? 1 : 3;
  header.picture.bits = header.most > 255 ? 16 : 8;
  header.at = text.at();
  check_pixels(header.picture, name, limits);
  return header;
}

int64_t raw_row_bytes(const PnmHeader& header) {
  if (header.bits) return (header.picture.width + 7) / 8;
  return header.picture.width * header.samples * (header.picture.bits / 8);
}

/// Refuses a file that is too short for what its header promises, before any memory is allocated for it.
void check_length(const PnmText& text, const PnmHeader& header) {
  const int64_t values = header.picture.height * header.picture.width * header.samples;
  const int64_t plain = header.bits ? values : 2 * values - 1;  // one digit each, and a space between two
  const int64_t needed = header.plain ? plain : header.picture.height * raw_row_bytes(header);
  if (static_cast<int64_t>(text.rest()) < needed)
    text.refuse("the file is too short for the picture that its header promises");
}

/// The next sample in the order of the file.
int64_t next_value(PnmText& text, const PnmHeader& header, const uint8_t*& raw, int64_t x) {
  if (header.plain) return header.bits ? text.bit() : text.number("a sample");
  if (header.bits) {
    const int bit = *raw >> (7 - x % 8) & 1;
    raw += x % 8 == 7 || x == header.picture.width - 1 ? 1 : 0;
    return bit;
  }
  if (header.picture.bits == 8) return *raw++;
  const int64_t value = raw[0] << 8 | raw[1];
  raw += 2;
  return value;
}

template <typename Value>
void read_raster(PnmText& text, const PnmHeader& header, std::vector<Value>& out) {
  const int64_t white = header.picture.bits == 16 ? 65535 : 255;
  const uint8_t* raw = text.bytes();
  auto place = out.begin();
  for (int64_t y = 0; y < header.picture.height; ++y)
    for (int64_t x = 0; x < header.picture.width; ++x)
      for (int64_t s = 0; s < header.samples; ++s) {
        int64_t value = next_value(text, header, raw, x);
        if (value > header.most) text.refuse("a sample is greater than white");
        if (header.bits) value = 1 - value;
        if (s < header.picture.channels)
          *place++ = static_cast<Value>((2 * value * white + header.most) / (2 * header.most));
      }
  if (!header.plain) text.go_to(header.at + static_cast<size_t>(header.picture.height * raw_row_bytes(header)));
  text.at_end();
}

bool begins_pnm(std::string_view bytes) {
  if (bytes.size() < 3 || bytes[0] != 'P' || bytes[1] < '1' || bytes[1] > '7') return false;
  return bytes[2] == '\n' || (bytes[1] != '7' && std::string_view(" \t\r#").find(bytes[2]) != std::string_view::npos);
}

ImageHeader read_pnm_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  PnmText text(file, name);
  return checked_header(text, name, limits).picture;
}

Image decode_pnm(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  PnmText text(file, name);
  const PnmHeader header = checked_header(text, name, limits);
  check_length(text, header);
  Image image = allocate_image(header.picture);
  if (header.picture.bits == 16) {
    read_raster(text, header, image.words);
  } else {
    read_raster(text, header, image.bytes);
  }
  return image;
}

}  // namespace

/// PBM, PGM, PPM (plain and raw) and PAM with one picture; values are scaled so that white is 255 or 65535.
extern const PictureFormat kPnm = {
    .name = "PNM",
    .endings = {".pbm", ".pgm", ".ppm", ".pnm", ".pam"},
    .begins = begins_pnm,
    .decode = decode_pnm,
    .read_header = read_pnm_header,
};

}  // namespace dtrain
