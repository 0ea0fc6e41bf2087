// Arrays as np.save writes them: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/io/pictures/codecs.hpp"

namespace dtrain {

namespace {

constexpr size_t kMostHeader = 10'000;  // NumPy's own limit; an array of numbers needs about a hundred bytes

/// What the header says, checked.
struct NpyHeader {
  ImageHeader picture;
  int64_t samples = 1;  // per pixel as stored: with alpha, which is dropped
  bool big_endian = false;
  bool truth = false;    // type bool: values are 0 and 1
  bool fortran = false;  // the first index varies fastest
  size_t at = 0;         // where the values begin

  int64_t data_bytes() const { return picture.height * picture.width * samples * (picture.bits / 8); }
};

[[noreturn]] void refuse_npy(const std::string& name, const std::string& why) {
  throw DataError(name + " is a damaged NumPy array: " + why);
}

/// The header's text: a Python dict of three entries, {'descr': '<u2', 'fortran_order': False, 'shape': (480, 640), }
/// followed by spaces. Other expressions that Python would accept are refused.
class NpyText {
 public:
  NpyText(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  /// Skips white space, then takes `word` if it comes next.
  bool take(std::string_view word) {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  void want(std::string_view word) {
    if (!take(word)) refuse();
  }

  /// A string without escapes, in single or double quotes.
  std::string_view quoted() {
    const bool single = take("'");
    if (!single) want("\"");
    const size_t end = text_.find_first_of("'\"\\", at_);
    if (end == std::string_view::npos || text_[end] != (single ? '\'' : '"')) refuse();
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  bool truth() {
    if (take("True")) return true;
    want("False");
    return false;
  }

  /// A tuple of counts, which Python writes as (), (1,) and (1, 2).
  std::vector<int64_t> counts() {
    std::vector<int64_t> found;
    want("(");
    while (!take(")")) {
      const size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
      const size_t digits = end - at_;
      if (digits < 1 || digits > 18) refuse();
      found.push_back(std::stoll(std::string(text_.substr(at_, digits))));
      at_ = end;
      if (take(",")) continue;
      if (found.size() == 1) refuse();  // (1) is not a tuple
      want(")");
      break;
    }
    return found;
  }

  void at_end() {
    take("");
    if (at_ < text_.size()) refuse();
  }

  [[noreturn]] void refuse() const {
    refuse_npy(name_,
               "its header is not a dict of descr, fortran_order and shape (at byte " + std::to_string(at_) + ")");
  }

 private:
  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

/// The entries of the dict.
struct NpyEntries {
  std::optional<std::string> type;  ///< "[" for a structured array
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;
};

NpyEntries entries_of(NpyText text) {
  NpyEntries found;
  text.want("{");
  while (!text.take("}")) {
    const std::string_view key = text.quoted();
    text.want(":");
    if (key == "descr" && !found.type) {
      if (text.take("[")) {
        found.type = "[";
        return found;  // refused, whatever follows
      }
      found.type = text.quoted();
    } else if (key == "fortran_order" && !found.fortran) {
      found.fortran = text.truth();
    } else if (key == "shape" && !found.shape) {
      found.shape = text.counts();
    } else {
      text.refuse();
    }
    if (text.take(",")) continue;
    text.want("}");
    break;
  }
  text.at_end();
  if (!found.type || !found.fortran || !found.shape) text.refuse();
  return found;
}

/// The usual name of a NumPy type: float32 for "<f4".
std::string title_of_type(const std::string& type) {
  const std::string size = type.size() > 2 ? type.substr(2) : "";
  const bool sized = !size.empty() && size.size() < 3 && size.find_first_not_of("0123456789") == std::string::npos;
  const std::string bits = sized ? std::to_string(8 * std::stoi(size)) : "";
  switch (type.size() > 1 ? type[1] : ' ') {
    case 'f':
      return "float" + bits;
    case 'i':
      return "int" + bits;
    case 'u':
      return "uint" + bits;
    case 'c':
      return "complex" + bits;
    case 'O':
      return "Python objects";
    case 'S':
    case 'U':
      return "text";
    case 'M':
    case 'm':
      return "times";
    default:
      return type == "[" ? "several fields" : "an unknown type";
  }
}

void set_type(const std::string& type, const std::string& name, NpyHeader& header) {
  const std::string order = type.substr(0, 1);
  const std::string kind = type.substr(order.size());
  const bool byte = (kind == "u1" || kind == "b1") && (order == "|" || order == "<" || order == ">");
  const bool word = kind == "u2" && (order == "<" || order == ">");
  if (!byte && !word)
    throw DataError(name + " is a NumPy array of " + title_of_type(type) +
                    "; uint8, uint16 and bool are read, with white as 255, 65535 and True: bring its values there and "
                    "save array.astype(numpy.uint8), or uint16");
  header.picture.bits = word ? 16 : 8;
  header.big_endian = order == ">";
  header.truth = kind == "b1";
}

void set_shape(const std::vector<int64_t>& shape, const std::string& name, NpyHeader& header) {
  const auto channels = [](int64_t count) { return count == 1 || count == 3 || count == 4; };
  if (shape.size() != 2 && !(shape.size() == 3 && channels(shape[2]))) {
    std::vector<std::string> sides;
    for (size_t i = 0; i < std::min<size_t>(shape.size(), 5); ++i) sides.push_back(std::to_string(shape[i]));
    if (shape.size() > 5) sides.emplace_back("…");
    const bool first = shape.size() == 3 && channels(shape[0]);
    throw DataError(name + " is a NumPy array of shape (" + join(sides, ", ") +
                    "); pictures are (height, width), or (height, width, 1, 3 or 4 channels): no picture of a stack "
                    "can be chosen, so save each to a separate file" +
                    (first ? ", or where the first are channels save numpy.moveaxis(array, 0, -1)" : ""));
  }
  header.picture.height = shape[0];
  header.picture.width = shape[1];
  header.samples = shape.size() == 3 ? shape[2] : 1;
  header.picture.channels = std::min<int64_t>(header.samples, 3);
}

/// The text of the header; `at` becomes the offset of its end.
std::string_view header_text(std::string_view file, const std::string& name, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(file[i]); };
  const bool long_count = file.size() > 6 && byte(6) > 1;
  at = long_count ? 12 : 10;
  if (file.size() < at) refuse_npy(name, "the header ends too early");
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0)
    refuse_npy(name, "its version is " + std::to_string(byte(6)) + "." + std::to_string(byte(7)) +
                         "; 1.0, 2.0 and 3.0 are read");
  size_t length = 0;
  for (size_t i = at; i > 8; --i) length = length << 8 | byte(i - 1);
  if (length > kMostHeader) refuse_npy(name, "its header has more than " + with_commas(kMostHeader) + " bytes");
  if (file.size() - at < length) refuse_npy(name, "the header ends too early");
  const std::string_view text = file.substr(at, length);
  at += length;
  return text;
}

NpyHeader npy_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  NpyHeader header;
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  const NpyEntries entries = entries_of(NpyText(header_text(bytes, name, header.at), name));
  set_type(*entries.type, name, header);
  set_shape(*entries.shape, name, header);
  header.fortran = *entries.fortran;
  check_pixels(header.picture, name, limits);
  return header;
}

template <typename Value>
Value value_at(const uint8_t* at, bool big_endian) {
  if constexpr (sizeof(Value) == 1) return *at;
  return static_cast<Value>(big_endian ? at[0] << 8 | at[1] : at[1] << 8 | at[0]);
}

template <typename Value>
void read_values(const NpyHeader& header, const uint8_t* data, std::vector<Value>& out) {
  const auto& [height, width, channels, bits] = header.picture;
  const int64_t size = bits / 8;
  const int64_t down = size * (header.fortran ? 1 : width * header.samples);
  const int64_t right = size * (header.fortran ? height : header.samples);
  const int64_t next = size * (header.fortran ? height * width : 1);
  auto place = out.begin();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < channels; ++c)
        *place++ = value_at<Value>(data + y * down + x * right + c * next, header.big_endian);
}

ImageHeader read_npy_header(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  return npy_header(file, name, limits).picture;
}

Image decode_npy(std::span<const std::byte> file, const std::string& name, const ImageLimits& limits) {
  const NpyHeader header = npy_header(file, name, limits);
  const auto rest = static_cast<int64_t>(file.size() - header.at);
  if (rest < header.data_bytes()) refuse_npy(name, "the file is too short for the picture that its header promises");
  if (rest > header.data_bytes()) refuse_npy(name, "bytes follow the array");
  Image image = allocate_image(header.picture);
  const auto* data = reinterpret_cast<const uint8_t*>(file.data()) + header.at;
  if (image.bits == 16)
    read_values(header, data, image.words);
  else
    read_values(header, data, image.bytes);
  if (header.truth)
    for (uint8_t& value : image.bytes) {
      if (value > 1) refuse_npy(name, "a value of bool is neither 0 nor 1");
      value = static_cast<uint8_t>(255 * value);
    }
  return image;
}

}  // namespace

/// uint8, uint16 in either byte order, and bool, whose True is white; (height, width) or (height, width, channels) with
/// 1, 3 or 4 channels, never a stack of pictures that are so narrow; in C and Fortran order; format versions 1.0, 2.0
/// and 3.0. One array a file, and nothing behind it.
extern const PictureFormat kNpy = {
    .name = "NPY",
    .endings = {".npy"},
    .begins = [](std::string_view bytes) { return bytes.starts_with("\x93NUMPY"); },
    .decode = decode_npy,
    .read_header = read_npy_header,
};

}  // namespace dtrain
